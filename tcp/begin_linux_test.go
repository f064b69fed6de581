//go:build linux && !haul_portable

package tcp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const listenChild = "HAUL_TCP_LISTEN_CHILD"

// Listen opens each socket only once, and keeps it open. If it opened a socket only to check whether
// the address is free, that socket would accept clients meanwhile, and reset them.
func TestListenResetsNoClient(t *testing.T) {
	strace, trace := needStrace(t), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-e", "trace=listen", "-e", "signal=none", "-o", trace,
		os.Args[0], "-test.run=^TestListenChild$")
	cmd.Env = append(os.Environ(), listenChild+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(trace)
	if n := bytes.Count(b, []byte(" listen(")); n != listenSockets || err != nil {
		t.Errorf("%d sockets were asked to listen, want %d; %v\n%s", n, listenSockets, err, b)
	}
}

const listenSockets = 4

func TestListenChild(t *testing.T) {
	if os.Getenv(listenChild) == "" {
		t.Skip("it is a part of TestListenResetsNoClient")
	}
	s := listenSocket(t, Options{Sockets: listenSockets})
	if n := len(s.kernels); n != listenSockets {
		t.Errorf("%d sockets", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
