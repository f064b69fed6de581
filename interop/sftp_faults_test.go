//go:build unix

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// New keys are exchanged in the middle of transfers, in each direction, after every MiB.
func TestSFTPRekey(t *testing.T) {
	t.Run("haul and sshd", func(t *testing.T) {
		t.Parallel()
		dir, local := realDir(t), t.TempDir()
		l, d := startSSHDAnd(t, dir, "Subsystem sftp internal-sftp", "RekeyLimit 1M", "LogLevel DEBUG")
		largeFile(t, filepath.Join(dir, "there"), 24)
		answers := haulDriver.do(t, l, []string{"get", "there", filepath.Join(local, "f")}, []string{"put", filepath.Join(local, "f"), "back"})
		for _, a := range answers {
			if a.Error != "" {
				t.Error(a.Error)
			}
		}
		sameFiles(t, filepath.Join(dir, "there"), filepath.Join(dir, "back"))
		if n := strings.Count(d.said(1<<20), "SSH2_MSG_NEWKEYS sent"); n < 40 {
			t.Errorf("keys were made %d times only", n)
		}
	})
	t.Run("sftp and haul", func(t *testing.T) {
		t.Parallel()
		dir, local := realDir(t), t.TempDir()
		l := serveSFTP(t, dir)
		p := findOpenSSH(t, "sftp")
		p.args = []string{"-v", "-S", findOpenSSH(t, "ssh").path, "-F", l.sshConfig(t, "RekeyLimit 1M", "LogLevel DEBUG1"), "-b", "-"}
		largeFile(t, filepath.Join(dir, "there"), 24)
		cmd := p.command(t.Context(), "server")
		cmd.Stdin = strings.NewReader(fmt.Sprintf("get there %s/f\nput %s/f back\n", local, local))
		log, err := os.Create(filepath.Join(local, "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		said, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		sameFiles(t, filepath.Join(dir, "there"), filepath.Join(dir, "back"))
		if n := strings.Count(string(said), "SSH2_MSG_NEWKEYS sent"); n < 40 {
			t.Errorf("keys were made %d times only:\n%.2000s", n, said)
		}
	})
}

// If a server permits only few sessions, these are enough.
func TestSFTPMaxSessions(t *testing.T) {
	for _, sessions := range []int{1, 2} {
		for _, conns := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d sessions, %d connections", sessions, conns), func(t *testing.T) {
				t.Parallel()
				dir, local := realDir(t), t.TempDir()
				l, d := startSSHDAnd(t, dir, "Subsystem sftp internal-sftp", fmt.Sprint("MaxSessions ", sessions))
				// The distance is so large that one session's window is not enough, and more are
				// requested.
				far := newWire(t, l.addr, 50*time.Millisecond).through(l)
				largeFile(t, filepath.Join(dir, "there"), 24)
				answers, err := haulDriver.try(t, job{Sessions: 8, Conns: conns}, far,
					[]string{"get", "there", filepath.Join(local, "f")}, []string{"put", filepath.Join(local, "f"), "back"}, []string{"list", "."})
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range answers {
					if a.Error != "" {
						t.Error(a.Error)
					}
				}
				sameFiles(t, filepath.Join(dir, "there"), filepath.Join(dir, "back"))
				if said := d.said(1 << 20); !strings.Contains(said, "no more sessions") {
					t.Errorf("it never asked for more sessions than there are, which is what this test is about:\n%s", d.said(30))
				}
			})
		}
	}
}
