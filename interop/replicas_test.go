//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const replicasDir = "../examples/replicas/"

func readYAML(t *testing.T, name string) []any {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := parseYAML(string(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return docs
}

// manifest returns the document in kubernetes.yaml with a kind and a name.
func manifest(t *testing.T, kind, name string) map[string]any {
	t.Helper()
	for _, doc := range readYAML(t, replicasDir+"kubernetes.yaml") {
		if part[string](t, doc, "kind") == kind && part[string](t, doc, "metadata.name") == name {
			return doc.(map[string]any)
		}
	}
	t.Fatalf("kubernetes.yaml has no %s %s", kind, name)
	panic("unreachable")
}

// An exampleContainer is a container in the compose file and the manifests.
type exampleContainer struct {
	args, env []string
	ports     map[string]string // by name
}

// readContainer reads the only container of a pod. In the environment, it replaces secrets with
// the notation of the compose file.
func readContainer(t *testing.T, kind, name string) (c exampleContainer) {
	t.Helper()
	container := part[map[string]any](t, manifest(t, kind, name), "spec.template.spec.containers.0")
	c.args, c.ports = scalars(part[[]any](t, container, "args")), map[string]string{}
	for _, v := range part[[]any](t, container, "env") {
		variable := v.(map[string]any)
		value, ok := variable["value"].(string)
		if !ok {
			if secret := part[string](t, v, "valueFrom.secretKeyRef.name"); secret != "haul-s3" {
				t.Errorf("%s: a key from the secret %s", name, secret)
			}
			key := part[string](t, v, "valueFrom.secretKeyRef.key")
			value = "${S3_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_")) + "}"
		}
		c.env = append(c.env, part[string](t, v, "name")+"="+value)
	}
	for _, p := range part[[]any](t, container, "ports") {
		c.ports[part[string](t, p, "name")] = part[string](t, p, "containerPort")
	}
	return c
}

func scalars(list []any) (s []string) {
	for _, v := range list {
		s = append(s, v.(string))
	}
	return s
}

// The compose file and the manifests run the same store and the same haul, without privileges,
// and name existing ports, probes and directories.
func TestReplicasExamples(t *testing.T) {
	services := part[map[string]any](t, readYAML(t, replicasDir+"compose.yaml")[0], "services")
	for _, x := range []struct{ kind, name, health, port, volume, replicas string }{
		{"StatefulSet", "store", "/health", "s3", "/data", "1"},
		{"Deployment", "haul", "/healthz", "metrics", "/var/cache/haul", "3"},
	} {
		c, service := readContainer(t, x.kind, x.name), part[map[string]any](t, services, x.name)
		var env []string
		for name, value := range part[map[string]any](t, service, "environment") {
			env = append(env, name+"="+value.(string))
		}
		slices.Sort(c.env)
		slices.Sort(env)
		if !slices.Equal(c.args, scalars(part[[]any](t, service, "command"))) || !slices.Equal(c.env, env) || len(env) == 0 {
			t.Errorf("%s: the compose file runs another command than the manifests, or in another environment: %q", x.name, env)
		}
		for path, want := range map[string]string{
			"read_only": "true", "cap_drop.0": "ALL", "security_opt.0": "no-new-privileges:true", "user": "65532:65532",
		} {
			if got := part[string](t, service, path); got != want {
				t.Errorf("compose.yaml, %s: %s is %q, want %q", x.name, path, got, want)
			}
		}
		if volume := part[string](t, service, "volumes.0"); !strings.HasSuffix(":"+volume, ":"+x.volume) {
			t.Errorf("compose.yaml, %s: the volume is %s", x.name, volume)
		}
		spec := part[map[string]any](t, manifest(t, x.kind, x.name), "spec")
		pod := part[map[string]any](t, spec, "template.spec")
		for path, want := range map[string]string{
			"securityContext.runAsNonRoot": "true", "securityContext.fsGroup": "65532",
			"containers.0.securityContext.readOnlyRootFilesystem":   "true",
			"containers.0.securityContext.allowPrivilegeEscalation": "false", "containers.0.securityContext.capabilities.drop.0": "ALL",
			"containers.0.readinessProbe.httpGet.path": x.health, "containers.0.readinessProbe.httpGet.port": x.port,
			"containers.0.livenessProbe.tcpSocket.port": x.port, "containers.0.volumeMounts.0.mountPath": x.volume,
			"containers.0.image": part[string](t, service, "image"),
		} {
			if got := part[string](t, pod, path); got != want {
				t.Errorf("kubernetes.yaml, %s: %s is %q, want %q", x.name, path, got, want)
			}
		}
		labels := part[string](t, spec, "template.metadata.labels.app")
		if got := part[string](t, manifest(t, "Service", x.name), "spec.selector.app"); got != labels || part[string](t, spec, "replicas") != x.replicas {
			t.Errorf("the service selects %s, and the pods are %s", got, labels)
		}
	}
	spread := part[string](t, manifest(t, "Deployment", "haul"), "spec.template.spec.topologySpreadConstraints.0.labelSelector.matchLabels.app")
	if spread != "haul" {
		t.Errorf("the pods that are spread over nodes are %s", spread)
	}
	haul, service := readContainer(t, "Deployment", "haul"), part[map[string]any](t, services, "haul")
	// Each port of the container appears in a flag, is above 1024, and the services lead to it.
	for _, flag := range []string{"tftp", "http", "metrics"} {
		if port := haul.ports[flag]; !slices.Contains(haul.args, "--"+flag+"=:"+port) || len(port) < 4 {
			t.Errorf("port %s is not that of --%s in %q", port, flag, haul.args)
		}
	}
	for i, want := range []string{"69 tftp UDP", "80 http TCP"} {
		p := part[map[string]any](t, manifest(t, "Service", "haul"), fmt.Sprintf("spec.ports.%d", i))
		if got := fmt.Sprint(p["port"], " ", p["targetPort"], " ", p["protocol"]); got != want {
			t.Errorf("the service has %s, want %s", got, want)
		}
	}
	for path, want := range map[string]string{"deploy.replicas": "3", "ports.0": "6969-6971:6969/udp", "ports.1": "8080-8082:8080/tcp"} {
		if got := part[string](t, service, path); got != want {
			t.Errorf("compose.yaml, haul: %s is %q, want %q", path, got, want)
		}
	}
	if want := "AWS_ENDPOINT_URL=http://store:" + part[string](t, manifest(t, "Service", "store"), "spec.ports.0.port"); !slices.Contains(haul.env, want) {
		t.Errorf("the replicas have %q, and not %s", haul.env, want)
	}
	if cache := haul.flag(t, "--cache="); filepath.Dir(cache) != "/var/cache/haul" {
		t.Errorf("the cache %s is not in the volume", cache)
	}
}

// flag returns the value of the argument that begins with a prefix.
func (c exampleContainer) flag(t *testing.T, prefix string) string {
	t.Helper()
	i := slices.IndexFunc(c.args, func(a string) bool { return strings.HasPrefix(a, prefix) })
	if i < 0 {
		t.Fatalf("no %s in %q", prefix, c.args)
	}
	return strings.TrimPrefix(c.args[i], prefix)
}

// as returns a program with the arguments and the environment of the container, with some texts
// replaced: pairs of old and new.
func (c exampleContainer) as(p program, pairs ...string) (program, []string) {
	r := strings.NewReplacer(append(pairs, "${S3_ACCESS_KEY}", "testkey", "${S3_SECRET_KEY}", "testsecret")...)
	p.env = append(slices.Clone(p.env), "AWS_CONFIG_FILE=/dev/null", "AWS_PROFILE=")
	for _, v := range c.env {
		p.env = append(p.env, r.Replace(v))
	}
	var args []string
	for _, a := range c.args {
		args = append(args, r.Replace(a))
	}
	return p, args
}

// exampleStore starts the store of the examples, with the files of dir in the bucket that the
// replicas serve, and returns its address.
func exampleStore(t *testing.T, dir string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	gateway, args := readContainer(t, "StatefulSet", "store").as(find(t, "versitygw", "versitygw"), "=:7070", "="+addr, "/data", data)
	gateway.start(t, args...)
	awaitListener(t, addr)
	wantHealthy(t, "http://"+addr+"/health")
	c := readContainer(t, "Deployment", "haul")
	h, _ := c.as(haul(t), "store:7070", addr)
	do(t, h, "put", "-r", dir+"/.", c.args[1]+"/")
	return addr
}

// wantHealthy checks that a probe succeeds.
func wantHealthy(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s, %v", url, resp.StatusCode, body, err)
	}
}

// inImage runs a program as a container of the Dockerfile does: it has only its own file, a
// directory for the cache, and /proc. Its user may only write to the cache, and cannot gain
// privileges.
func inImage(t *testing.T, p program) program {
	t.Helper()
	needRoot(t, "a root directory of its own")
	b, err := os.ReadFile("../packaging/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	step := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` (.+)$`).FindStringSubmatch(string(b))
		if m == nil {
			t.Fatalf("the Dockerfile has no %s", name)
		}
		return m[1]
	}
	var from, to, entry string
	if n, err := fmt.Sscanf(step("COPY"), "%s %s", &from, &to); n != 2 || from != "haul" || step("FROM") != "scratch" {
		t.Fatalf("the Dockerfile copies %s to %s, %v", from, to, err)
	}
	if _, err := fmt.Sscanf(step("ENTRYPOINT"), "[%q]", &entry); err != nil || entry != to {
		t.Fatalf("the entry point is %s, %v", entry, err)
	}
	var uid, gid int
	if n, err := fmt.Sscanf(step("USER"), "%d:%d", &uid, &gid); n != 2 || uid == 0 {
		t.Fatalf("the user is %d:%d, %v", uid, gid, err)
	}
	root := t.TempDir()
	binary, err := os.ReadFile(p.path)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, to), binary, 0o755)
	}
	cache := filepath.Join(root, step("WORKDIR"))
	if err = errors.Join(err, os.MkdirAll(cache, 0o755), os.Mkdir(filepath.Join(root, "proc"), 0o755)); err == nil {
		err = os.Chown(cache, uid, gid)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.args = []string{"--no-new-privs", find(t, "util-linux", "unshare").path, "--mount-proc=/proc", "--root=" + root, fmt.Sprint("--setgid=", gid), fmt.Sprint("--setuid=", uid), entry}
	p.path = find(t, "util-linux", "setpriv").path
	return p
}

// exampleReplica is one process with the command of the examples. Only its ports, which are free
// ones, and its store differ.
func exampleReplica(t *testing.T, store string) (d *daemon, loader, image, health string) {
	t.Helper()
	c := readContainer(t, "Deployment", "haul")
	h, args := c.as(inImage(t, haul(t)), "store:7070", store)
	for i := range args {
		args[i] = regexp.MustCompile(`=:\d+$`).ReplaceAllString(args[i], "=127.0.0.1:0")
	}
	d = h.start(t, args...)
	loader = d.ready(t, regexp.MustCompile(` on (tftp://127\.0\.0\.1:[0-9]+)`))[1] + "/loader"
	image = d.ready(t, regexp.MustCompile(` on (http://127\.0\.0\.1:[0-9]+)`))[1] + "/image"
	health = d.ready(t, regexp.MustCompile(`(http://127\.0\.0\.1:[0-9]+)/metrics`))[1] + "/healthz"
	return d, loader, image, health
}

// The commands of the examples work: the store and three replicas are healthy, give a file the
// same ETag, boot machines, and end in order.
func TestReplicasRun(t *testing.T) {
	store := exampleStore(t, fill(t, t.TempDir(), map[string][]byte{"loader": content(20_001), "image": content(300_001)}))
	args := []string{"bench", "boot", "-n", "30"}
	var replicas []*daemon
	etags := map[string]bool{}
	for range 3 {
		d, loader, image, health := exampleReplica(t, store)
		replicas = append(replicas, d)
		args = append(args, "--loader", loader, "--image", image)
		wantHealthy(t, health)
		resp, err := http.Head(image)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		etags[resp.Header.Get("ETag")] = true
	}
	if len(etags) != 1 || etags[""] {
		t.Errorf("the replicas give one file the ETags %v: a client could not continue it at another one", slices.Collect(maps.Keys(etags)))
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

// The YAML parser refuses what it does not support.
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
