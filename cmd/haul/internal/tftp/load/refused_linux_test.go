//go:build linux && !haul_portable

package load

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// If no server listens, the first refusal ends the run.
func TestDeadServer(t *testing.T) {
	c, port := closedPort(t)
	c.Close()
	l := Load{Target: tftpclient.Target{Host: "127.0.0.1", Port: port, Name: "x"}, Concurrency: 5, Transfers: 1000}
	r, err := l.Run(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "no TFTP server listens at 127.0.0.1") {
		t.Errorf("Run says %v", err)
	}
	if r.Transfers > 5 {
		t.Errorf("%d transfers were tried, want at most 5", r.Transfers)
	}
}

// If the server disappears during the run, the run ends early, before it has tried all transfers.
func TestServerGoesAway(t *testing.T) {
	s := tftp.Config{Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		return store.FromBytes(r.Name, nil), nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	l := Load{
		Target:      tftpclient.Target{Host: "127.0.0.1", Port: server.Addr().Port(), Name: "x"},
		Concurrency: 2,
		Transfers:   1 << 30,
		Progress:    func(Progress) { cancel() },
	}
	r, err := l.Run(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "went away") {
		t.Errorf("Run says %v", err)
	}
	if r.Transfers == r.Failed {
		t.Errorf("no transfer went well: %+v", r)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
