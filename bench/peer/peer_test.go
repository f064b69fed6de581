package peer_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// patience bounds the duration of each step.
const patience = time.Minute

func content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// start starts a server on a directory with the file "f" in it.
func start(t *testing.T, s *peer.Server, want []byte) (p *peer.Process, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), peer.Options{Dir: dir, KeepUploads: true})
	if errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p, dir
}

func download(t *testing.T, c *tftpclient.Client, p *peer.Process, name string) ([]byte, tftpclient.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := filepath.Join(t.TempDir(), "got")
	res, err := c.GetFile(ctx, "tftp://"+p.Addr().String()+"/"+name, path)
	if err != nil {
		t.Fatalf("%v; the server said: %s", err, p.Log())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b, res
}

func upload(t *testing.T, c *tftpclient.Client, p *peer.Process, name string, b []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	target, err := tftpclient.ParseURL("tftp://" + p.Addr().String() + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, target, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatalf("%v; the server said: %s", err, p.Log())
	}
}

// wantFile waits until a file has a content: some servers acknowledge the last block before they
// have written it.
func wantFile(t *testing.T, path string, want []byte) {
	t.Helper()
	var got []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got, _ = os.ReadFile(path); bytes.Equal(got, want) {
			return
		}
	}
	t.Errorf("%s has %d bytes, other than the %d sent", filepath.Base(path), len(got), len(want))
}

// Every server that is present moves files both ways, with and without options, accepts a window
// if its recipe says so, is measured, and has ended after Stop.
func TestServers(t *testing.T) {
	set := peer.Find(bin)
	for _, a := range set.Absent {
		t.Run(a.Name, func(t *testing.T) { t.Skip(a.Why) })
	}
	for _, s := range set.Servers {
		t.Run(s.Name, func(t *testing.T) {
			want := content(300_000)
			p, dir := start(t, &s, want)
			if !s.OnlyUploads {
				testDownloads(t, &s, p, want)
			}
			if s.Writes() {
				testUploads(t, &s, p, dir)
			}
			testMeters(t, p)
			if err := p.Running(); err != nil {
				t.Error(err)
			}
			p.Stop()
			if p.Running() == nil {
				t.Error("it runs after Stop")
			}
		})
	}
}

func testDownloads(t *testing.T, s *peer.Server, p *peer.Process, want []byte) {
	for _, c := range []*tftpclient.Client{{NoOptions: true}, {BlockSize: 1000, Window: 4}} {
		got, res := download(t, c, p, "f")
		if !bytes.Equal(got, want) {
			t.Errorf("downloaded %d bytes, other than the %d served", len(got), len(want))
		}
		if windows := res.Options.Window > 1; !c.NoOptions && windows != s.Windows {
			t.Errorf("agrees to windows: %v, and the recipe says %v", windows, s.Windows)
		}
		if fromRequestPort := res.Peer == p.Addr(); fromRequestPort != s.SinglePort {
			t.Errorf("answers from the port of requests: %v, and the recipe says %v", fromRequestPort, s.SinglePort)
		}
	}
}

func testUploads(t *testing.T, s *peer.Server, p *peer.Process, dir string) {
	for i, c := range []*tftpclient.Client{{NoOptions: true}, {BlockSize: 1000, Window: 4}} {
		want := content(200_000 - i)
		name := []string{"plain", "options"}[i]
		upload(t, c, p, name, want)
		switch {
		case s.Uploads == peer.Disk:
			wantFile(t, filepath.Join(dir, name), want)
		case s.Uploads == peer.Memory || s.Floor:
			if got, _ := download(t, c, p, name); !bytes.Equal(got, want) {
				t.Errorf("downloaded %d bytes, other than the %d uploaded", len(got), len(want))
			}
		}
	}
}

func testMeters(t *testing.T, p *peer.Process) {
	cpu, err := p.CPU()
	if err != nil {
		t.Error(err)
	}
	// The process table counts in ticks of 10 ms, and a floor uses less than one.
	if cpu <= 0 && p.Accounting() != "process table" {
		t.Errorf("it spent %v of CPU time by %s", cpu, p.Accounting())
	}
	if m := p.Memory(); m < 100_000 {
		t.Errorf("it had %d bytes of memory", m)
	}
}

// Clients move a file each way, and failures are detected.
func TestClients(t *testing.T) {
	set := peer.Find(bin)
	s, ok := set.Server("haul")
	if !ok {
		t.Fatal(set.Absent)
	}
	want := content(100_000)
	p, dir := start(t, s, want)
	for _, c := range set.Clients {
		t.Run(c.Name, func(t *testing.T) {
			local := filepath.Join(t.TempDir(), "local")
			do := func(make func(context.Context, peer.Command, peer.Transfer) (*exec.Cmd, error), tr peer.Transfer) error {
				tr.Server, tr.Local = p.Addr(), local
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd, err := make(ctx, nil, tr)
				if err != nil {
					return err
				}
				out, err := cmd.CombinedOutput()
				return c.Check(out, err)
			}
			if err := do(c.Get, peer.Transfer{Remote: "f"}); err != nil {
				t.Error(err)
			}
			wantFile(t, local, want)
			if err := do(c.Put, peer.Transfer{Remote: "up-" + c.Name}); err != nil {
				t.Error(err)
			}
			wantFile(t, filepath.Join(dir, "up-"+c.Name), want)
			if err := do(c.Get, peer.Transfer{Remote: "f", BlockSize: 1024}); (err == nil) != c.Blocks || err != nil && !errors.Is(err, peer.ErrOption) {
				t.Errorf("with a block size: %v", err)
			}
			if err := do(c.Get, peer.Transfer{Remote: "f", Window: 4}); (err == nil) != c.Windows || err != nil && !errors.Is(err, peer.ErrOption) {
				t.Errorf("with a window: %v", err)
			}
			if err := do(c.Get, peer.Transfer{Remote: "missing"}); err == nil {
				t.Error("fetching a missing file succeeded")
			}
		})
	}
}

// The error of a server that cannot run contains its own message.
func TestStartFails(t *testing.T) {
	set := peer.Find(bin)
	s, ok := set.Server("haul")
	if !ok {
		t.Fatal(set.Absent)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := s.Start(t.Context(), peer.Options{Dir: missing})
	if err == nil || !strings.Contains(err.Error(), "start haul") || !strings.Contains(err.Error(), missing) {
		t.Errorf("serving a missing directory: %v", err)
	}
}

// If the caller makes the commands, those run, and the server listens on the requested address.
func TestCommand(t *testing.T) {
	set := peer.Find(bin)
	s, ok := set.Server("haul")
	if !ok {
		t.Fatal(set.Absent)
	}
	var asked []string
	p, err := s.Start(t.Context(), peer.Options{
		Dir:  t.TempDir(),
		Addr: netip.MustParseAddrPort("127.0.0.9:0"),
		Command: func(ctx context.Context, name string, args ...string) *exec.Cmd {
			asked = append([]string{name}, args...)
			return exec.CommandContext(ctx, "env", asked...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if len(asked) < 2 || asked[0] != s.Path || asked[1] != "serve" {
		t.Errorf("asked for %q", asked)
	}
	if p.Addr().Addr().String() != "127.0.0.9" {
		t.Errorf("it listens on %v", p.Addr())
	}
}

// All missing programs are named, with the way to install them.
func TestAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	set := peer.Find(t.TempDir())
	if len(set.Servers) > 0 {
		// The system directories are searched, whatever PATH says.
		t.Logf("the machine's own: %d servers", len(set.Servers))
	}
	named := map[string]bool{}
	for _, a := range set.Absent {
		named[a.Name] = true
		if !strings.Contains(a.Why, "install-bench-peers") && !strings.Contains(a.Why, "make b") {
			t.Errorf("%s: %q does not say what to do", a.Name, a.Why)
		}
	}
	for _, name := range []string{"haul", "haul single-port", "floor-64", "floor-1", "floor-64 single-port", "floor-epoll",
		"pin/tftp", "pin/tftp single-port", "rs-tftpd", "rs-tftpd single-port", "r-tftpd", "goserver",
		"haul (SFTP)", "haul to haul (SFTP)", "pkg/sftp (SFTP)", "pkg/sftp to pkg/sftp (SFTP)",
		"haul (TCP)", "haul portable (TCP)", "haul serve (TCP)", "gnet (TCP)", "net/http (TCP)", "floor-tcp (TCP)", "floor-tcp DEFER_ACCEPT (TCP)", "tcpload (TCP)"} {
		if !named[name] {
			t.Errorf("%s is not named", name)
		}
	}
}
