package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const replicasDir = "../examples/replicas/"

func readYAML(t *testing.T, name string) []any {
	t.Helper()
	b, err := os.ReadFile(replicasDir + name)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := parseYAML(string(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return docs
}

// arguments returns the command line in a list, in which ports belong to flags.
func arguments(list []any) (args []string) {
	for _, a := range list {
		args = append(args, a.(string))
	}
	return args
}

// The compose file and the manifests run the same haul, without privileges, and name the
// ports and probes that it has.
func TestReplicasExamples(t *testing.T) {
	service := part[map[string]any](t, readYAML(t, "compose.yaml")[0], "services.haul")
	docs := readYAML(t, "kubernetes.yaml")
	pod := part[map[string]any](t, docs[1], "spec.template.spec")
	container := part[map[string]any](t, pod, "containers.0")
	args := arguments(part[[]any](t, container, "args"))
	if !slices.Equal(args, arguments(part[[]any](t, service, "command"))) {
		t.Error("the compose file runs another command than the manifests")
	}
	for path, want := range map[string]string{
		"deploy.replicas": "3", "read_only": "true", "cap_drop.0": "ALL", "security_opt.0": "no-new-privileges:true", "user": "65532:65532",
		"ports.0": "6969-6971:6969/udp", "ports.1": "8080-8082:8080/tcp",
	} {
		if got := part[string](t, service, path); got != want {
			t.Errorf("compose.yaml: %s is %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"securityContext.runAsNonRoot": "true", "containers.0.securityContext.readOnlyRootFilesystem": "true",
		"containers.0.securityContext.allowPrivilegeEscalation": "false", "containers.0.securityContext.capabilities.drop.0": "ALL",
		"containers.0.readinessProbe.httpGet.path": "/healthz", "containers.0.readinessProbe.httpGet.port": "metrics",
		"containers.0.livenessProbe.tcpSocket.port": "metrics", "containers.0.volumeMounts.0.readOnly": "true",
		"containers.0.volumeMounts.0.mountPath": args[1], "volumes.0.persistentVolumeClaim.claimName": part[string](t, docs[0], "metadata.name"),
	} {
		if got := part[string](t, pod, path); got != want {
			t.Errorf("kubernetes.yaml: %s is %q, want %q", path, got, want)
		}
	}
	// Each port of the container is that of a flag, above 1024, and the service leads to it.
	for i, flag := range []string{"tftp", "http", "metrics"} {
		name, port := part[string](t, container, fmt.Sprintf("ports.%d.name", i)), part[string](t, container, fmt.Sprintf("ports.%d.containerPort", i))
		if name != flag || !slices.Contains(args, "--"+flag+"=:"+port) || len(port) < 4 {
			t.Errorf("port %d is %s, %s, and not that of --%s in %q", i, name, port, flag, args)
		}
	}
	for i, want := range []string{"69 tftp UDP", "80 http TCP"} {
		p := part[map[string]any](t, docs[2], fmt.Sprintf("spec.ports.%d", i))
		if got := fmt.Sprint(p["port"], " ", p["targetPort"], " ", p["protocol"]); got != want {
			t.Errorf("the service has %s, want %s", got, want)
		}
	}
	if got, want := part[string](t, docs[2], "spec.selector.app"), part[string](t, docs[1], "spec.template.metadata.labels.app"); got != want {
		t.Errorf("the service selects %s, and the pods are %s", got, want)
	}
}

// exampleReplica is one process with the command of the examples: with ports that are
// free and a directory that exists, and otherwise as it is.
func exampleReplica(t *testing.T, dir string) (d *daemon, loader, image, health string) {
	t.Helper()
	args := arguments(part[[]any](t, readYAML(t, "kubernetes.yaml")[1], "spec.template.spec.containers.0.args"))
	args[1] = dir
	for i := range args {
		args[i] = regexp.MustCompile(`=:\d+$`).ReplaceAllString(args[i], "=127.0.0.1:0")
	}
	d = haul(t).start(t, args...)
	loader = d.ready(t, regexp.MustCompile(` on (tftp://127\.0\.0\.1:[0-9]+)`))[1] + "/loader"
	image = d.ready(t, regexp.MustCompile(` on (http://127\.0\.0\.1:[0-9]+)`))[1] + "/image"
	health = d.ready(t, regexp.MustCompile(`(http://127\.0\.0\.1:[0-9]+)/metrics`))[1] + "/healthz"
	return d, loader, image, health
}

// The command of the examples runs: three replicas of it are healthy, boot machines, and
// end in order.
func TestReplicasRun(t *testing.T) {
	dir := fill(t, t.TempDir(), map[string][]byte{"loader": content(20_001), "image": content(300_001)})
	args := []string{"bench", "boot", "-n", "30"}
	var replicas []*daemon
	for range 3 {
		d, loader, image, health := exampleReplica(t, dir)
		replicas = append(replicas, d)
		args = append(args, "--loader", loader, "--image", image)
		resp, err := http.Get(health)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s, %v", health, resp.StatusCode, body, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := haul(t).run(ctx, args...)
	if err != nil || !strings.Contains(out, "30, of which 30 came up") {
		t.Errorf("%v\n%s", err, out)
	}
	for i, d := range replicas {
		if err := d.stop(); err != nil {
			t.Errorf("replica %d, told to end: %v", i, err)
		}
	}
}

// The reader of YAML refuses what it does not know.
func TestParseYAML(t *testing.T) {
	docs, err := parseYAML("# x\na:\n  - b: 1\n    c: \"2:3\"\n  - d\n---\ne: f\n")
	if err != nil || fmt.Sprint(docs) != "[map[a:[map[b:1 c:2:3] d]] map[e:f]]" {
		t.Errorf("%v, %v", docs, err)
	}
	for _, text := range []string{"a: 1\na: 2\n", "a\n", "a: 1\n  b: 2\n"} {
		if docs, err := parseYAML(text); err == nil {
			t.Errorf("%q: %v", text, docs)
		}
	}
}
