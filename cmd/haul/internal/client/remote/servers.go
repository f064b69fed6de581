package remote

import (
	"context"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Servers holds the connections of one command. Each server and user has one entry.
type Servers struct {
	asker *asker
	ssh   *sshDialer
	web   webDialer
	open  map[string]Server // connected servers, by Location.Origin
}

// New returns an empty set of connections.
func New(cfg Config) *Servers {
	a := &asker{asking: cfg.Asking}
	n := newNotices(cfg.Say)
	return &Servers{asker: a, ssh: newSSHDialer(&cfg, n, a), web: webDialer{&cfg, n, a}, open: map[string]Server{}}
}

// Close closes all connections, and restores the terminal.
func (s *Servers) Close() {
	s.asker.end()
	var wg sync.WaitGroup
	for _, c := range s.open {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
	s.ssh.runs.End()
}

// Len returns the number of connected servers.
func (s *Servers) Len() int { return len(s.open) }

// Connect returns the server of a location. It connects at the first call for each server. Only one
// goroutine at a time may call it.
func (s *Servers) Connect(ctx context.Context, l Location, to Intent) (c Server, err error) {
	if c := s.open[l.Origin()]; c != nil {
		return c, nil
	}
	switch l.Protocol {
	case SFTP:
		c, err = s.ssh.connect(ctx, l, to)
	case HTTP:
		c, err = s.web.connect(l, to.First)
	case S3:
		c, err = s.web.connectS3(l)
	default:
		err = failure.Usage.Errorf("location %v: its protocol is not one of SFTP, HTTP and S3", l)
	}
	if err != nil {
		return nil, err
	}
	s.open[l.Origin()] = c
	return c, nil
}

// At returns the server of a location, and the location's name on that server.
func (s *Servers) At(ctx context.Context, l Location) (Server, string, error) {
	c, err := s.Connect(ctx, l, Intent{})
	if err != nil {
		return nil, "", err
	}
	name, err := c.Path(ctx, l)
	return c, name, err
}

// Same reports whether two locations are on the same server and use the same account there, even if
// they spell the server differently.
func (s *Servers) Same(ctx context.Context, a, b Location) (bool, error) {
	if a.Origin() == b.Origin() || a.Protocol != SFTP {
		return a.Origin() == b.Origin(), nil
	}
	return s.ssh.same(ctx, a, b)
}
