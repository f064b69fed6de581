//go:build linux

package interop

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The manifest for network boot runs haul with the capabilities that it names and no other
// privileges. It answers boot clients next to a DHCP server on its host, and reads only the
// directory with the files.
func TestKubernetesBoot(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	pod := part[map[string]any](t, readYAML(t, "../packaging/kubernetes-boot.yaml")[0], "spec.template.spec")
	container := part[map[string]any](t, pod, "containers.0")
	for path, want := range map[string]string{
		"hostNetwork": "true", "containers.0.securityContext.capabilities.drop.0": "ALL", "containers.0.securityContext.runAsUser": "0",
		"containers.0.securityContext.allowPrivilegeEscalation": "false", "containers.0.securityContext.readOnlyRootFilesystem": "true",
		"volumes.0.hostPath.path": "/srv/boot", "containers.0.volumeMounts.0.mountPath": "/srv/boot", "containers.0.volumeMounts.0.readOnly": "true",
		"containers.0.ports.0.containerPort": "9069", "containers.0.readinessProbe.httpGet.path": "/healthz",
	} {
		if got := part[string](t, pod, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	bounds := "-all"
	for _, name := range scalars(part[[]any](t, container, "securityContext.capabilities.add")) {
		bounds += ",+" + strings.ToLower(name)
	}
	args := scalars(part[[]any](t, container, "args"))
	if at := slices.Index(args, "/srv/boot"); at > 0 {
		args[at] = fill(t, t.TempDir(), map[string][]byte{"ipxe/ipxe.efi": content(1000)})
	}
	l.server.do(t, func() {
		dhcp, err := net.ListenPacket("udp4", ":67")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dhcp.Close() })
	})
	setpriv := find(t, "util-linux", "setpriv")
	setpriv.args = []string{"--no-new-privs", "--inh-caps=-all", "--bounding-set=" + bounds, haul(t).path}
	d := l.server.start(t, setpriv, args...)
	d.ready(t, regexp.MustCompile(`another DHCP server of this machine has port 67`))
	d.ready(t, regexp.MustCompile(`metrics at `))
	l.client.doctorPXE(t, eth, 1, "x64", `names the boot file ipxe.efi of `+host, "fetched tftp://"+host+"/ipxe.efi")

	client := http.Client{Transport: &http.Transport{DialContext: l.server.dialer(t)}}
	answer, err := client.Get("http://127.0.0.1:9069/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the probe: %d %s, %v", answer.StatusCode, b, err)
	}
}
