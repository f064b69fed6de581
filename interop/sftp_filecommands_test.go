//go:build unix

package interop

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cp, ln, chmod, sum, cat and tree work on other servers, and as far as possible without
// extensions.
func TestSFTPFileCommands(t *testing.T) {
	for _, c := range []struct {
		server sftpServer
		way    string // method of copies
		hard   bool   // supports hard links
	}{
		{haulHidden, "(on the server)", true},
		{sshdInternal, "(on the server)", true},
		{paramikoServer, "(through this machine)", false},
	} {
		t.Run(c.server.name, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			l := c.server.start(t, dir)
			p := haul(t)
			run := func(command string, args ...string) string {
				t.Helper()
				out, err := p.command(t.Context(), append([]string{command, "--batch", "-F", l.sshConfig(t)}, args...)...).CombinedOutput()
				if err != nil {
					t.Errorf("haul %s %q: %v, %s", command, args, err, out)
				}
				return string(out)
			}
			data := content(300_000)
			write(t, filepath.Join(dir, "a"), data)
			if err := os.MkdirAll(filepath.Join(dir, "d/e"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "d/e/f"), data[:1000])
			if out := run("cp", "-v", "server:a", "server:b"); !strings.Contains(out, "server:b "+c.way) {
				t.Errorf("cp -v: %s", out)
			}
			run("cp", "-rp", "server:d", "server:tree")
			run("chmod", "-R", "u=rwX,go=", "server:tree")
			run("ln", "-s", "a", "server:soft")
			if c.hard {
				run("ln", "-f", "server:a", "server:b")
				run("ln", "-f", "server:d/e/f", "server:b")
			}
			same := fmt.Sprintf("%x", sha256.Sum256(data))
			if out := run("sum", "server:a", "server:soft"); out != same+"  a\n"+same+"  soft\n" {
				t.Errorf("sum: %s", out)
			}
			list := write(t, filepath.Join(t.TempDir(), "list"), []byte(run("sum", "-r", "server:d", "server:tree")))
			if out := run("sum", "--check", list, "server:"); out != "d/e/f: OK\ntree/e/f: OK\n" {
				t.Errorf("sum --check: %s", out)
			}
			if out := run("cat", "--count", "500", "server:d/e/f"); out != string(data[:500]) {
				t.Errorf("cat has %d bytes", len(out))
			}
			if out := run("tree", "-d", "server:tree"); out != "tree\n└── e\n\n1 directory\n" {
				t.Errorf("tree: %q", out)
			}
			for name, mode := range map[string]os.FileMode{"tree": 0o700, "tree/e": 0o700, "tree/e/f": 0o600} {
				if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != mode {
					t.Errorf("%s has mode %v, %v", name, fi.Mode(), err)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".haul-*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %q, %v", left, err)
			}
		})
	}
}
