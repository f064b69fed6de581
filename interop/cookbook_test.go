//go:build linux

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docScripts returns the command blocks in a section of a document.
func docScripts(t *testing.T, doc, heading string) (scripts []string) {
	t.Helper()
	b, err := os.ReadFile("../docs/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(b), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", doc, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for i, part := range strings.Split(section, "```\n") {
		if i%2 == 1 {
			scripts = append(scripts, part)
		}
	}
	return scripts
}

// recipe returns the blocks of a recipe in the cookbook, and checks their number.
func recipe(t *testing.T, heading string, blocks int) []string {
	t.Helper()
	scripts := docScripts(t, "cookbook.md", "## "+heading)
	if len(scripts) != blocks {
		t.Fatalf("the recipe %q has %d blocks of commands, and the test runs %d", heading, len(scripts), blocks)
	}
	return scripts
}

// The addresses in the cookbook of the server and of the first client.
const (
	cookServer = "192.0.2.1"
	cookClient = "192.0.2.7"
)

// A desk is a host with a home directory where a person types commands.
type desk struct {
	*node
	shell program
	dir   string
}

// newDesk makes a desk with haul and the given commands, in addition to those of the system. Its
// user has the test user's key, and accepts a new host key.
func newDesk(t *testing.T, n *node, commands map[string]string) *desk {
	t.Helper()
	d := &desk{node: n, dir: t.TempDir()}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(d.dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("bin/haul", fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", haul(t).path), 0o755)
	for name, command := range commands {
		write("bin/"+name, fmt.Sprintf("#!/bin/sh\nexec env %s \"$@\"\n", command), 0o755)
	}
	write(".ssh/config", "IdentityFile "+must[keyPair](t)(userKey()).file+"\nStrictHostKeyChecking accept-new\n"+
		"Host office\nHostName "+cookServer+"\nPort 2022\nUser haul\n", 0o600)
	d.shell = find(t, "util-linux", "unshare")
	d.shell.env = []string{"PATH=" + home + "/bin:" + os.Getenv("PATH"), "HOME=" + home, "STATE_DIRECTORY=" + home + "/state", "CONFIGURATION_DIRECTORY=" + home}
	d.shell.args = []string{"--mount", "--propagation", "private", "sh", "-euc", `mount --bind "$0" ` + home + `; cd ` + home + `; eval "$1"`, d.dir}
	return d
}

// try runs a script to its end.
func (d *desk) try(t *testing.T) func(script string) (string, error) {
	return func(script string) (string, error) { return d.node.run(t, d.shell, script) }
}

// run is like try for a script that must succeed.
func (d *desk) run(t *testing.T, script string) string {
	t.Helper()
	out, err := d.try(t)(script)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return out
}

// begin starts a script that runs until the test ends.
func (d *desk) begin(t *testing.T, script string) *daemon {
	t.Helper()
	return d.node.start(t, d.shell, script)
}

// lanOf makes the machine the cookbook's server, on a network to which cookDesk adds clients.
func lanOf(t *testing.T, m *computer) {
	t.Helper()
	m.ip(t, "link add br0 type bridge", "link set br0 up", address("br0", cookServer+"/24"))
}

// cookDesk adds a desk to the network of lanOf.
func cookDesk(t *testing.T, m *computer, at string) *desk {
	t.Helper()
	n := newNode(t)
	port := "to" + at[strings.LastIndexByte(at, '.')+1:]
	join(t, m.node, port, n, eth, 1500)
	m.ip(t, "link set "+port+" master br0")
	n.ip(t, address(eth, at+"/24"))
	return newDesk(t, n, nil)
}

// unpack copies the files of packages to the machine, as their installation would.
func (m *computer) unpack(t *testing.T, packages ...string) {
	t.Helper()
	for _, pkg := range packages {
		if _, err := os.Stat(peerDir(t, pkg)); err != nil {
			absent(t, "scripts/install-peers fetches the package %s: %v", pkg, err)
		}
		pipe := exec.CommandContext(t.Context(), "sh", "-c", `tar -C "$0" -c . | tar -C "$1" -x --keep-directory-symlink`, peerDir(t, pkg), m.path("/"))
		if out, err := pipe.CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v, %s", pkg, err, out)
		}
	}
}

// varies matches the words of an output that differ each time.
var varies = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b|\b[\d.]+ [kMG]?B(/s)?|\d+ packets/s|\d+ resends|\d{8}T\d{6}\.\d{3}Z`)

// wantDialogue runs the commands of a block, which follow "$ ", and compares their output with
// the lines below. A command whose output begins with "haul: " must fail, and the others must
// succeed.
func wantDialogue(t *testing.T, run func(script string) (string, error), block string) {
	t.Helper()
	for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, want, _ := strings.Cut(step, "\n")
		said, err := run(command)
		want, got := strings.TrimSpace(want), strings.TrimSpace(said)
		if varies.ReplaceAllString(want, "#") != varies.ReplaceAllString(got, "#") || (err != nil) != strings.Contains("\n"+want, "\nhaul: ") {
			t.Errorf("$ %s\nsays, with %v:\n%s\nand in the document:\n%s", command, err, got, want)
		}
	}
}
