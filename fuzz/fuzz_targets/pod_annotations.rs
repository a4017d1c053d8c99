#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lodesman_fuzz::run("pod_annotations", data));
