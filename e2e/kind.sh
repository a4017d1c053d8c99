#!/usr/bin/env bash
# Plays the scenarios of e2e/src/scenarios on a cluster of kind: e2e/kind.sh [istio|envoy-gateway]
# Needs docker, kind, kubectl, cargo, and istioctl or helm. DRY_RUN=1 prints what it would do; KEEP=1 keeps the cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

gateway=${1:-istio}
cluster=lodesman-e2e
image=lodesman:0.1.0
gateway_api=v1.6.1

case $gateway in
  istio)
    namespace=default
    label=gateway.networking.k8s.io/gateway-name=inference-gateway
    install=(istioctl install --skip-confirmation
      --set values.pilot.env.ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true)
    ;;
  envoy-gateway)
    namespace=envoy-gateway-system
    label=gateway.envoyproxy.io/owning-gateway-name=inference-gateway
    install=(helm install envoy-gateway oci://docker.io/envoyproxy/gateway-helm --version v1.9.1
      --namespace "$namespace" --create-namespace --wait)
    ;;
  *)
    echo "kind.sh: give istio or envoy-gateway" >&2
    exit 64
    ;;
esac

run() {
  echo "+ $*" >&2
  [[ -n ${DRY_RUN:-} ]] || "$@"
}

work=$(mktemp -d)
forward=
finish() {
  [[ -z $forward ]] || kill "$forward"
  [[ -n ${KEEP:-} ]] || run kind delete cluster --name "$cluster"
  rm -rf "$work"
}
trap finish EXIT

export KUBECONFIG=$work/kubeconfig
run make image
run kind create cluster --name "$cluster"
run kind load docker-image "$image" --name "$cluster"
# Envoy Gateway brings these itself.
[[ $gateway == envoy-gateway ]] || run kubectl apply --server-side --filename \
  "https://github.com/kubernetes-sigs/gateway-api/releases/download/$gateway_api/standard-install.yaml"
run kubectl apply --server-side --kustomize manifests/crds
run "${install[@]}"
run kubectl apply --kustomize "manifests/try/$gateway"
run kubectl wait gateway/inference-gateway --for=condition=Accepted --timeout=180s
run kubectl wait pod --namespace "$namespace" --selector "$label" --for=condition=Ready --timeout=180s

address=127.0.0.1:0
if [[ -z ${DRY_RUN:-} ]]; then
  pod=$(kubectl get pods --namespace "$namespace" --selector "$label" --output=name | head -n 1)
  port=$(kubectl get "$pod" --namespace "$namespace" \
    --output=jsonpath='{.spec.containers[*].ports[?(@.name=="http-80")].containerPort}')
  kubectl port-forward --namespace "$namespace" "$pod" ":${port:-80}" > "$work/forward" &
  forward=$!
  # The first line says which port it is: Forwarding from 127.0.0.1:PORT -> …
  until address=$(grep -om1 '127\.0\.0\.1:[0-9]*' "$work/forward"); do
    kill -0 "$forward"
    sleep 0.2
  done
fi
run cargo run --quiet --package lodesman-e2e --bin scenarios -- \
  --kubeconfig "$KUBECONFIG" --gateway "$address"
