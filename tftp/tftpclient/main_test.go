package tftpclient

import (
	"context"
	"testing"

	"github.com/haul-project/haul/internal/leak"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/tftp"
)

func TestMain(m *testing.M) {
	leak.Main(m, "haul/tftp/tftpclient.", "haul/tftp/internal/", "haul/tftp.")
}

// serve runs a server on the loopback interface until the test ends, and then checks for leftovers.
func serve(t testing.TB, s tftp.Config) *tftp.Server {
	t.Helper()
	return serveAt(t, s, "127.0.0.1:0")
}

func serveAt(t testing.TB, s tftp.Config, addr string) *tftp.Server {
	t.Helper()
	repeat.OnFailure(t)
	ctx, stop := context.WithCancel(context.Background())
	l, err := s.Listen(ctx, addr)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if c := l.Counters(); c.Held != 0 || c.Live != 0 || c.Dallying != 0 {
			t.Errorf("counters still show %+v", c)
		}
	})
	return l
}

// at returns a target for a file on a real server.
func at(l *tftp.Server, name string) Target {
	return Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: name}
}
