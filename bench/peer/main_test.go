package peer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/bench/peer"
)

// bin is the directory of the tested programs: haul, the floors and goserver from the current
// sources, and the peers that were installed.
var bin string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	var err error
	if bin, err = os.MkdirTemp("", "haul-peer-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(bin)
	if err := build(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func build() error {
	installed, err := filepath.Abs(filepath.Join(peer.BinDir(), "peers"))
	if err != nil {
		return err
	}
	peers := filepath.Join(bin, "peers")
	for _, own := range []string{"floor", "goserver", "pkgsftp", "tcp"} {
		if err := os.MkdirAll(filepath.Join(peers, own), 0o755); err != nil {
			return err
		}
	}
	entries, _ := os.ReadDir(installed) // none before the first installation
	for _, e := range entries {
		_ = os.Symlink(filepath.Join(installed, e.Name()), filepath.Join(peers, e.Name())) // our own exist already
	}
	commands := [][]string{
		{"go", "build", "-C", "../..", "-o", filepath.Join(bin, "haul"), "./cmd/haul"},
		{"go", "build", "-o", filepath.Join(peers, "goserver", "goserver"), "../goserver"},
		{"go", "build", "-o", filepath.Join(peers, "pkgsftp", "pkgsftp"), "../pkgsftp"},
		{"go", "build", "-o", filepath.Join(bin, "haulsftp"), "../haulsftp"},
		{"go", "build", "-o", filepath.Join(bin, "haultcp"), "../haultcp"},
		{"go", "build", "-tags", "haul_portable", "-o", filepath.Join(bin, "haultcp-portable"), "../haultcp"},
		{"go", "build", "-o", filepath.Join(bin, "tcpload"), "../tcpload"},
		{"go", "build", "-o", filepath.Join(peers, "tcp") + "/", "../tcppeers/..."},
	}
	if _, err := exec.LookPath("gcc"); err == nil || os.Getenv("CI") == "true" {
		for _, name := range []string{"batch", "epoll"} {
			commands = append(commands, []string{"gcc", "-Wall", "-Wextra", "-Werror", "-O2",
				"-o", filepath.Join(peers, "floor", "floor-"+name), "../floor/" + name + ".c", "../floor/tftp.c"})
		}
		commands = append(commands, []string{"gcc", "-Wall", "-Wextra", "-Werror", "-O2",
			"-o", filepath.Join(peers, "floor", "floor-http"), "../floor/http.c", "-ldl"})
	}
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", c, err, out)
		}
	}
	// These use libraries that cannot be fetched everywhere, if they were built.
	others, _ := os.ReadDir(filepath.Join(installed, "tcp"))
	for _, e := range others {
		// An error means that our own exists already.
		_ = os.Symlink(filepath.Join(installed, "tcp", e.Name()), filepath.Join(peers, "tcp", e.Name()))
	}
	return nil
}
