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

// Keys are made anew in the middle of transfers, each way, every MiB.
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

// A server that allows few sessions is respected, and the work is done with those.
func TestSFTPMaxSessions(t *testing.T) {
	for _, sessions := range []int{1, 2} {
		for _, conns := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d sessions, %d connections", sessions, conns), func(t *testing.T) {
				t.Parallel()
				dir, local := realDir(t), t.TempDir()
				l, d := startSSHDAnd(t, dir, "Subsystem sftp internal-sftp", fmt.Sprint("MaxSessions ", sessions))
				// So far away that one session's window is too little, and more are asked for.
				far := newWire(t, l.addr, 50*time.Millisecond, 0).through(l)
				largeFile(t, filepath.Join(dir, "there"), 24)
				answers, err := haulDriver.try(t, job{Lanes: 8, Conns: conns}, far,
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

// A download that is cut leaves a beginning of the file, and resumes there.
func TestSFTPCutDownload(t *testing.T) {
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		t.Run("haul and "+s.name, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			l := s.start(t, dir)
			const size = 12 << 20
			data := content(size)
			write(t, filepath.Join(dir, "there"), data)
			for _, at := range []int64{5_000, 60_000, 1 << 20, 5<<20 + 1, 11 << 20} {
				part := filepath.Join(t.TempDir(), "part")
				w := newWire(t, l.addr, time.Millisecond, at)
				answers, err := haulDriver.try(t, job{}, w.through(l), []string{"get", "there", part})
				if err == nil && answers[0].Error == "" {
					t.Fatalf("cut after %d bytes, the download succeeded", at)
				}
				if err == nil && answers[0].Kind != "lost" {
					t.Errorf("cut after %d bytes: %s", at, answers[0].Error)
				}
				got, err := os.ReadFile(part)
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if len(got) >= size || string(got) != string(data[:len(got)]) {
					t.Fatalf("cut after %d bytes: the %d there are no beginning of the file", at, len(got))
				}
				if err := os.WriteFile(part, got, 0o644); err != nil { // it may not have begun at all
					t.Fatal(err)
				}
				if a := haulDriver.do(t, l, []string{"reget", "there", part}); a[0].Error != "" {
					t.Fatal(a[0].Error)
				}
				wantFile(t, part, data)
			}
		})
	}
}

// An upload that is cut is seen by nobody where it was to be hidden, whether the
// client or the server hides it, and what was there before is there still.
func TestSFTPCutUpload(t *testing.T) {
	for _, c := range []struct {
		op string
		s  sftpServer
	}{{"publish", sshdInternal}, {"publish", haulInPlace}, {"put", haulHidden}, {"publish", haulHidden}} {
		t.Run(c.op+" to "+c.s.name, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			l := c.s.start(t, dir)
			up := write(t, filepath.Join(t.TempDir(), "up"), content(12<<20))
			for _, at := range []int64{60_000, 1 << 20, 11 << 20} {
				write(t, filepath.Join(dir, "over"), []byte("old"))
				for _, name := range []string{"new", "over"} {
					w := newWire(t, l.addr, time.Millisecond, at)
					answers, err := haulDriver.try(t, job{}, w.through(l), []string{c.op, up, name})
					if err == nil && answers[0].Error == "" {
						t.Fatalf("cut after %d bytes, the upload succeeded", at)
					}
				}
				wantFile(t, filepath.Join(dir, "over"), []byte("old"))
				if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
					t.Fatalf("cut after %d bytes, there is a file", at)
				}
			}
			a := haulDriver.do(t, l, []string{c.op, up, "new"}, []string{c.op, up, "over"})
			if a[0].Error != "" || a[1].Error != "" {
				t.Fatal(a[0].Error, a[1].Error)
			}
			sameFiles(t, up, filepath.Join(dir, "new"))
			sameFiles(t, up, filepath.Join(dir, "over"))
			if c.s.name == haulHidden.name {
				wantOnly(t, dir, "new", "over") // the server has cleared away what was cut
			}
		})
	}
}

// OpenSSH's sftp resumes in place an upload that was cut off.
func TestSFTPCutPeer(t *testing.T) {
	dir, local := realDir(t), t.TempDir()
	l := serveSFTP(t, dir, "--sftp-in-place")
	const size = 12 << 20
	data := content(size)
	up := write(t, filepath.Join(local, "up"), data)
	write(t, filepath.Join(dir, "there"), data)
	for _, at := range []int64{60_000, 5 << 20} {
		cut := newSFTPTool(t, newWire(t, l.addr, time.Millisecond, at).through(l))
		down := filepath.Join(local, fmt.Sprint("down", at))
		if err := cut.fails(t, "there", down); err == nil {
			t.Fatal("the download succeeded over a wire that was cut")
		}
		tl := newSFTPTool(t, l)
		if _, err := os.Stat(down); err == nil {
			tl.reget(t, "there", down)
			wantFile(t, down, data)
		}
		p := findOpenSSH(t, "sftp")
		p.args = []string{"-q", "-S", findOpenSSH(t, "ssh").path, "-F", newWire(t, l.addr, time.Millisecond, at).through(l).sshConfig(t), "-b", "-"}
		name := fmt.Sprint("back", at)
		if _, err := runTool(t, p, "put "+up+" "+name+"\n", "server"); err == nil {
			t.Fatal("the upload succeeded over a wire that was cut")
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // cut before it began
		}
		if len(got) >= size || string(got) != string(data[:len(got)]) {
			t.Errorf("cut after %d bytes: the %d there are no beginning of the file", at, len(got))
		}
		tl.reput(t, name, up)
		wantFile(t, filepath.Join(dir, name), data)
	}
}
