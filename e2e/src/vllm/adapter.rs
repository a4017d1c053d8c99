//! A LoRA adapter with random weights, in the files that PEFT writes.
//!
//! `adapter_model.safetensors` is the length of a header (8 bytes, little endian), the header, which is JSON that names
//! each tensor, its shape and its place, and the tensors' bytes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Rank of the two matrices that a layer's weights are changed by.
const RANK: usize = 8;
/// Largest weight, small so that answers change and numbers stay finite.
const WEIGHT: f32 = 0.02;

/// Writes an adapter for the model of `config` (its `config.json`) into `folder`; a seed gives the same weights.
///
/// # Errors
/// When `config` lacks a figure, or a file cannot be written.
pub(super) fn write(config: &Value, folder: &Path, seed: u64) -> Result<()> {
    let shape = Shape::of(config)?;
    let settings = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
    });
    fs::create_dir_all(folder)?;
    fs::write(folder.join("adapter_config.json"), settings.to_string())?;
    fs::write(folder.join("adapter_model.safetensors"), shape.weights(&mut Rng::with_seed(seed)))?;
    Ok(())
}

/// What the sizes of the tensors follow from.
#[derive(Debug)]
struct Shape {
    layers: usize,
    hidden: usize,
    /// Widths of the projections to queries and to values.
    projections: [(&'static str, usize); 2],
}

impl Shape {
    fn of(config: &Value) -> Result<Self> {
        let figure = |name: &str| {
            let figure = config.get(name).and_then(Value::as_u64).and_then(|it| it.try_into().ok());
            figure.with_context(|| format!("the model's configuration lacks {name}"))
        };
        let head: usize = figure("head_dim")?;
        Ok(Self {
            layers: figure("num_hidden_layers")?,
            hidden: figure("hidden_size")?,
            projections: [
                ("q_proj", head * figure("num_attention_heads")?),
                ("v_proj", head * figure("num_key_value_heads")?),
            ],
        })
    }

    /// Names and shapes of all tensors.
    fn tensors(&self) -> impl Iterator<Item = (String, [usize; 2])> {
        let sites = (0..self.layers).flat_map(|layer| self.projections.map(|it| (layer, it)));
        sites.flat_map(|(layer, (module, width))| {
            let name = format!("base_model.model.model.layers.{layer}.self_attn.{module}");
            [
                (format!("{name}.lora_A.weight"), [RANK, self.hidden]),
                (format!("{name}.lora_B.weight"), [width, RANK]),
            ]
        })
    }

    fn weights(&self, random: &mut Rng) -> Vec<u8> {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, shape) in self.tensors() {
            let begin = data.len();
            for _ in 0..shape.iter().product() {
                data.extend(((random.f32() * 2.0 - 1.0) * WEIGHT).to_le_bytes());
            }
            let place =
                json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
            header.insert(name, place);
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_fill_the_file_and_differ_by_seed() {
        let config = json!({
            "head_dim": 32, "num_hidden_layers": 2, "hidden_size": 128,
            "num_attention_heads": 4, "num_key_value_heads": 2,
        });
        let folder = tempfile::tempdir().unwrap();
        let file = |seed| {
            write(&config, folder.path(), seed).unwrap();
            fs::read(folder.path().join("adapter_model.safetensors")).unwrap()
        };
        let bytes = file(1);
        let (length, rest) = bytes.split_at(8);
        let length = u64::from_le_bytes(length.try_into().unwrap());
        let length = usize::try_from(length).unwrap();
        let header: Map<String, Value> = serde_json::from_slice(&rest[..length]).unwrap();
        assert_eq!(header.len(), 8);
        let name = "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight";
        assert_eq!(header[name]["shape"], json!([64, 8]));
        // two layers: 8 rows in and the widths 128 and 64 out
        assert_eq!(rest.len() - length, 2 * 4 * (2 * 8 * 128 + 8 * (128 + 64)));
        assert_eq!(bytes, file(1));
        assert_ne!(bytes, file(2));
        assert!(write(&json!({}), folder.path(), 1).is_err());
    }
}
