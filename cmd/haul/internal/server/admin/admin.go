// Package admin serves the pages for administrators: the metrics for Prometheus, and the status
// page.
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/metricsserver"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/tcp"
)

// A Server serves the metrics and the status page, each on its own port, if one is configured.
type Server struct {
	cfg   *settings.Config
	env   *service.Env
	board *status.Board    // the content of the status page; nil if there is no status page
	users *logins.Sessions // the users who may see the status page; nil if everybody may
	tls   *tls.Config      // TLS configuration of the status page; nil without users
	ports []*port
}

// New opens everything that the server needs except its sockets. board is the content of the status
// page, or nil if the server has no status page.
func New(cfg *settings.Config, env *service.Env, board *status.Board) (*Server, error) {
	s := &Server{cfg: cfg, env: env, board: board}
	if cfg.Status.Listen == "" || cfg.Status.Users == "" {
		return s, nil
	}
	file, err := filepath.Abs(cfg.Status.Users)
	if err != nil {
		return nil, err
	}
	dir, err := logins.OpenUsersFile(file, env.Owners...)
	if err != nil {
		return nil, failure.InSetting("status-users", err)
	}
	set, err := certs.Load(cfg.Status.Pair())
	if err != nil {
		return nil, failure.InSetting("status-cert", failure.Local.Wrap(err))
	}
	service.LogCertificate(set, "status", service.SayTo(env.Log))
	s.users, s.tls = &logins.Sessions{Users: dir, File: file}, certs.ServerConfig(set.GetCertificate)
	return s, nil
}

// Secrets returns the files of the status page that no client may access.
func (s *Server) Secrets() []userroots.Secret {
	if s.users == nil {
		return nil
	}
	return []userroots.Secret{
		{Flag: "status-users", What: "the users file of the status page", Path: s.users.File},
		{Flag: "status-key", What: "the key of the status page", Path: s.cfg.Status.Pair().Key},
	}
}

// KeepHistory makes the status page continue the predecessor's history: its last hour and its
// failures. It also passes the history of this process to its own successor.
func (s *Server) KeepHistory(next *handover.Restarter) {
	if s.board == nil {
		return
	}
	next.History = s.board.History
	if s.env.Predecessor != nil {
		s.env.Predecessor.History = func(text []byte) {
			if err := s.board.Remember(text); err != nil {
				s.env.Log.Info("status page: it begins anew", "error", err)
			}
		}
	}
}

// Start opens the ports and serves until ctx ends or Close is called. The caller calls Close, even
// after an error.
func (s *Server) Start(ctx context.Context, passed *handover.Inherited) error {
	if err := s.startMetrics(ctx, passed); err != nil {
		return err
	}
	return s.startStatus(ctx, passed)
}

// startMetrics starts to serve the metrics, if an address for them is configured.
func (s *Server) startMetrics(ctx context.Context, passed *handover.Inherited) error {
	if s.cfg.Metrics == "" {
		return nil
	}
	p, l, err := s.open(ctx, passed, handover.Metrics, s.cfg.Metrics)
	if err != nil {
		return err
	}
	p.close = metricsserver.New(ctx, l, s.env.Counts.Handler(), s.env.Log).Close
	s.env.Say("metrics at http://%v/metrics", l.Addr())
	return nil
}

// startStatus starts to serve the status page, if an address for it is configured.
func (s *Server) startStatus(ctx context.Context, passed *handover.Inherited) error {
	if s.cfg.Status.Listen == "" {
		return nil
	}
	p, l, err := s.open(ctx, passed, handover.Status, s.cfg.Status.Listen)
	if err != nil {
		return err
	}
	// The settings require users unless the configured address is a loopback address. But its name
	// may resolve to another address, for example if /etc/hosts gives localhost another address.
	if at := l.Addr().String(); s.users == nil && !status.Loopback(at) {
		return failure.Mistake("status", "%s %s: that is %s, which others can reach; add %s FILE and %s FILE, or listen at 127.0.0.1:PORT", failure.Flag("status"), s.cfg.Status.Listen, at, failure.Flag("status-users"), failure.Flag("status-cert"))
	}
	c, scheme := status.Config{Hosts: s.cfg.Status.Hosts, TLS: s.tls, Profiles: s.cfg.Status.Profiles, Log: s.env.Log}, "http"
	if s.users != nil {
		c.Login, scheme = status.NewLogin(s.users.Users, s.env.Log), "https"
		// A change of the users ends no requests here, because long requests check again and again
		// whether their login is still valid.
		go s.users.Watch(ctx, "status", service.SayTo(s.env.Log), func() {})
	}
	page := status.Serve(ctx, l, s.board, c)
	p.close = page.Close
	s.env.Counts.Gauge("status_watchers", "Browsers that get what changes of the status page.", func() float64 { return float64(page.Watchers()) })
	s.env.Say("status page at %s://%v/", scheme, l.Addr())
	return nil
}

// connsPerSource is the number of connections that one address (IPv6: one /64) may have to a port
// that other machines can reach. A port accepts 64 connections, and 16 browsers can receive changes
// of the status page. With this limit, one address cannot use up all connections, or be the only one
// that receives changes.
const connsPerSource = 12

// A port is an open port of the metrics or of the status page.
type port struct {
	service string
	accept  tcp.Server
	sockets []*tcp.Socket
	asked   []string // the configured address of each socket; "" for a socket from systemd
	close   func()
}

// open opens a port, or takes it over from a predecessor. A port that only this machine can reach
// has no limit for each address.
func (s *Server) open(ctx context.Context, passed *handover.Inherited, name, addr string) (p *port, l net.Listener, err error) {
	p = &port{service: name, accept: tcp.Server{Log: s.env.Log}}
	if p.sockets, p.asked, err = ports.Listen(ctx, s.cfg, passed, name, []string{addr}, tcp.Options{Sockets: 1}); err != nil {
		ports.CloseAll(p.sockets)
		return nil, nil, err
	}
	if !status.Loopback(p.sockets[0].Addr().String()) {
		p.accept.MaxConnsPerSource = connsPerSource
	}
	if l, err = p.accept.Listener(p.sockets...); err != nil {
		return nil, nil, err
	}
	p.close = func() { _ = l.Close() }
	s.ports = append(s.ports, p)
	return p, l, nil
}

// SandboxPaths adds the files that the status page uses and reads again when they change.
func (s *Server) SandboxPaths(c *privilege.Confinement) {
	if s.users != nil {
		c.Read = append(append(c.Read, s.users.Reads()...), s.cfg.Status.Pair().Dirs()...)
	}
}

// WarnUnreadable logs a warning if the status page's certificate cannot be loaded again.
func (s *Server) WarnUnreadable() {
	service.WarnUnreadable("status", s.cfg.Status.Pair(), s.env.Log)
}

// Sockets returns duplicates of the sockets, for a successor.
func (s *Server) Sockets() (all []handover.Socket, err error) {
	for _, p := range s.ports {
		some, failed := handover.FromTCP(p.service, p.sockets, p.asked)
		all, err = append(all, some...), errors.Join(err, failed)
	}
	return all, err
}

// Close closes the ports.
func (s *Server) Close() {
	for _, p := range s.ports {
		p.close()
	}
}
