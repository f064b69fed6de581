//go:build linux

package interop

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The guide's way from a bucket to a machine works as written: its commands run on their own
// host, and the machine gets its script by TFTP and the files in it by HTTP.
func TestFirmwareGuideBucket(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	scripts := docScripts(t, "guide.md", "### Boot a machine from a bucket")
	const pkg = "qemu-system-x86"
	pc := find(t, pkg, "qemu-system-x86_64")
	d := newDesk(t, newNode(t), map[string]string{
		"versitygw": find(t, "versitygw", "versitygw").path,
		"qemu-system-x86_64": strings.Join(append(pc.env, pc.path), " ") + " -accel tcg -display none -no-reboot" +
			" -L " + peerFile(pkg, "/usr/share/qemu") + " -L " + peerFile(pkg, "/usr/share/seabios") + " -L " + peerFile(pkg, "/usr/lib/ipxe/qemu") +
			// See kernelShower and switchOff.
			" -debugcon file:memory -device isa-debug-exit,iobase=0x501,iosize=1",
	})
	fill(t, filepath.Join(d.dir, "boot"), map[string][]byte{"boot.ipxe": []byte(scripts[0]), "kernel": kernelShower(), "initrd": content(size)})
	// This runs after versitygw has started.
	const asPeopleType = "until haul ls s3://images/ >/dev/null 2>&1; do sleep 0.05; done\n"
	server := d.begin(t, scripts[1]+asPeopleType+scripts[2])
	server.await(t, "http://127.0.0.1:8080")
	machine := d.begin(t, scripts[3])
	select {
	case <-machine.done: // it has switched itself off
	case <-time.After(patience):
		t.Fatalf("the machine is still on after %v", patience)
	}
	wantFile(t, filepath.Join(d.dir, "memory"), shown("", content(size)))
	for _, file := range []string{`tftp result=done direction=read file=boot.ipxe`, `http result=done direction=read file=/?kernel`, `http result=done direction=read file=/?initrd`} {
		server.ready(t, regexp.MustCompile("msg="+file))
	}
}
