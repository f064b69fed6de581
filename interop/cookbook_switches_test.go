//go:build linux

package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Switches save their configurations by TFTP and SFTP, each into its own directory.
func TestCookbookSwitches(t *testing.T) {
	t.Parallel()
	scripts := recipe(t, "Backups of switch configurations", 3)
	m := newcomer(t)
	m.run(t, `install -m 755 bin/haul /usr/bin/haul
install -m 644 packaging/systemd/haul.service /etc/systemd/system/
install -D -m 644 packaging/sysusers.d/haul.conf /etc/sysusers.d/haul.conf
install -D -m 644 packaging/tmpfiles.d/haul.conf /etc/tmpfiles.d/haul.conf
systemd-sysusers
systemd-tmpfiles --create`)
	lanOf(t, m)
	first, second := cookDesk(t, m, "192.0.2.11"), cookDesk(t, m, "192.0.2.12")
	m.run(t, scripts[0])
	fill(t, first.dir, map[string][]byte{"running-config": content(20_000)})
	wantDialogue(t, first.try(t), scripts[1])
	wantDialogue(t, first.try(t), scripts[1])
	wantDialogue(t, m.try, scripts[2])
	saved, _ := filepath.Glob(m.path("/srv/switches/192.0.2.11/*"))
	for _, name := range saved {
		wantFile(t, name, content(20_000))
	}
	fill(t, second.dir, map[string][]byte{"running-config": content(30_000), "password": []byte("Secret of switch 12\n")})
	if err := os.Chmod(filepath.Join(second.dir, "password"), 0o600); err != nil {
		t.Fatal(err)
	}
	second.run(t, "haul put --password-file password running-config sftp://sw12@192.0.2.1:2022/sw12-monday")
	wantFile(t, m.path("/srv/switches/192.0.2.12/sw12-monday"), content(30_000))

	// The recipe describes these failures.
	second.run(t, "echo wrong >password; ! haul put --password-file password running-config sftp://sw12@192.0.2.1:2022/sw12-tuesday")
	third := cookDesk(t, m, "192.0.2.13")
	fill(t, third.dir, map[string][]byte{"running-config": content(40_000)})
	third.run(t, "haul put running-config tftp://192.0.2.1/running-config")
	saved, _ = filepath.Glob(m.path("/srv/switches/running-config.*"))
	if said := m.run(t, "journalctl --no-pager -u haul -o cat"); len(saved) != 1 ||
		!strings.Contains(said, "stored="+filepath.Base(saved[0])) || !strings.Contains(said, `msg="sftp login" result=refused`) {
		t.Errorf("of a switch without a directory there are %q, and haul's log is\n%s", saved, said)
	}
}
