// Testkube is what a Kubernetes control plane needs, in one file to build and to keep: etcd,
// kube-apiserver, kube-controller-manager and kubectl, each as its project ships it.
//
// The name by which it is called says which program it is; build.sh makes a link for each. Each runs
// in a process of its own, because signal handlers, logs and feature gates belong to a process.
// Ports, credentials and the order of start are the business of whoever calls: e2e/src/kube.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	// Formats of logs and metrics of clients, as the shipped programs link them.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kubectl":                 kubectl,
}

func main() {
	program, known := programs[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintln(os.Stderr, "testkube: call it by a link named etcd, kube-apiserver, kube-controller-manager or kubectl")
		os.Exit(64)
	}
	os.Exit(program())
}
