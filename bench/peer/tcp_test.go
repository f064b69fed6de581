package peer_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
)

// Every TCP server that is present gives the answers that it claims to support, and is measured.
func TestStreams(t *testing.T) {
	set := peer.Streams(bin, filepath.Join(bin, "haul"))
	for _, a := range set.Absent {
		t.Run(a.Name, func(t *testing.T) { t.Skip(a.Why) })
	}
	cert, key, err := peer.NewCert(t.TempDir(), peer.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	for i := range set.Streams {
		s := &set.Streams[i]
		t.Run(s.Name, func(t *testing.T) {
			for name, a := range map[string]peer.Answer{
				"closed":    {Size: 1024, Close: true},
				"kept":      {Size: 1024},
				"delayed":   {Size: 128, Delay: time.Millisecond},
				"encrypted": {Size: 1024, Encrypted: true},
				"large":     {Size: 16 << 10, Close: true},
				"TLS":       {Size: 1024, Cert: cert, Key: key},
				"file":      {File: "f"},
				"TLS file":  {File: "f", Cert: cert, Key: key},
			} {
				if !s.Trade.Does(a) {
					continue
				}
				t.Run(name, func(t *testing.T) { testStream(t, &set, s, a) })
			}
		})
	}
}

func testStream(t *testing.T, set *peer.Set, s *peer.Server, a peer.Answer) {
	dir := t.TempDir()
	want := content(3_000_000)
	if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), peer.Options{Dir: dir, Answer: a})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if a.File != "" {
		fetch(t, ctx, set, p, a, want)
	} else if out, err := check(ctx, set, p, a).CombinedOutput(); err != nil {
		t.Errorf("%v: %s; the server said: %s", err, out, p.Log())
	}
	if n, err := p.Proportional(); err != nil || n <= 0 || n > 2*p.Memory() {
		t.Errorf("it takes %d bytes, %v, and at its peak %d resident ones", n, err, p.Memory())
	}
	// Some kernels count in ticks, and may count none for so little work.
	if _, err := p.CPU(); err != nil {
		t.Error(err)
	}
	if s.Trade.Stacks {
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Error(err)
		}
		for !strings.Contains(p.Log(), "stacks of goroutines: ") {
			if ctx.Err() != nil || p.Running() != nil {
				t.Fatalf("it does not say what its stacks take: %v, %s", p.Running(), p.Log())
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func check(ctx context.Context, set *peer.Set, p *peer.Process, a peer.Answer) *exec.Cmd {
	args := []string{"check", "-addr", p.Addr().String(), "-size", strconv.Itoa(a.Size)}
	if a.Cert != "" {
		args = append(args, "-tls")
	}
	if a.Close {
		args = append(args, "-close")
	}
	if a.Encrypted {
		args = append(args, "-encrypted")
	}
	tool, _ := set.Tool(peer.TCPLoad)
	return tool.Command(ctx, nil, args...)
}

func fetch(t *testing.T, ctx context.Context, set *peer.Set, p *peer.Process, a peer.Answer, want []byte) {
	curl, ok := set.Tool(peer.Curl)
	if !ok {
		t.Skip("curl is not here")
	}
	args := []string{"--silent", "--show-error", "--fail", "--noproxy", "*"}
	url := "http://" + p.Addr().String() + "/f"
	if a.Cert != "" {
		args = append(args, "--cacert", a.Cert)
		url = "https://" + p.Addr().String() + "/f"
	}
	var said bytes.Buffer
	cmd := curl.Command(ctx, nil, append(args, url)...)
	cmd.Stderr = &said
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s; the server said: %s", err, &said, p.Log())
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, other than the %d of the file", len(got), len(want))
	}
}

// A missing peer has the same name as one that is present, and none appears twice.
func TestStreamNames(t *testing.T) {
	dir := t.TempDir()
	set := peer.Streams(dir, "none")
	var got []string
	for _, s := range set.Streams {
		got = append(got, s.Name)
	}
	for _, a := range set.Absent {
		name, ok := strings.CutSuffix(a.Name, peer.OfTCP)
		if !ok || a.Why == "" {
			t.Errorf("%q is absent because of %q", a.Name, a.Why)
		}
		if strings.Contains(a.Why, filepath.Join(dir, "peers")) {
			t.Errorf("why %s is absent names a path of this machine: %s", name, a.Why)
		}
		got = append(got, name)
	}
	for _, name := range peer.StreamNames() {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != name })); n != 1 {
			t.Errorf("%q is there %d times", name, n)
		}
	}
}
