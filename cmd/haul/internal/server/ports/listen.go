package ports

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tftp"
)

// listenAdvice maps the name of each service to texts for the advice about its address.
var listenAdvice = map[string]struct {
	free  string // an address that needs no privileges
	rival string // the server that most often uses the port
	all   string // a hint about another kind of address that the administrator could choose
}{
	handover.TFTP:    {free: ":6969"},
	handover.SFTP:    {free: ":2022", rival: " (on 22 most often sshd)"},
	handover.HTTP:    {free: ":8080"},
	handover.HTTPS:   {free: ":8443"},
	handover.Metrics: {free: ":9069", all: ", and :PORT is all of them"},
	handover.Status:  {free: "127.0.0.1:9070"},
}

// ListenError adds advice for the administrator to an error from opening a port. name is the name
// of the service, and of the setting for its addresses. If the predecessor in a reload uses the
// same port for another address, rival is that address; otherwise it is nil.
func ListenError(name string, err error, rival net.Addr) error {
	if advice := adviceFor(name, err, rival); advice != nil {
		err = failure.Text("%w: %w", err, advice)
	}
	if name == handover.TFTP { // package tftp names the service itself
		return failure.Listen.Wrap(err)
	}
	return failure.Listen.Errorf("%s: %w", name, err)
}

// adviceFor returns the advice for an error: what the administrator can do about it. It returns nil
// if there is no advice for the error.
func adviceFor(name string, err error, rival net.Addr) error {
	setting, of := failure.Flag(name), listenAdvice[name]
	switch {
	case errors.Is(err, tftp.ErrNoPort):
		return failure.Text("the range of %s needs a free port for each address of %s, and one more for each processor is better", failure.Flag("ports"), failure.Flag("tftp"))
	case errors.Is(err, syscall.EACCES):
		return failure.Text("ports below 1024 need root or CAP_NET_BIND_SERVICE; try %s %s", setting, of.free)
	case errors.Is(err, syscall.EADDRINUSE) && rival != nil:
		return failure.Text("this server has that port, at %v, and both addresses cannot be open at a time; restart haul for this change", rival)
	case errors.Is(err, syscall.EADDRINUSE):
		return failure.Text("another server has that port%s; stop it, or choose another with %s", of.rival, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failure.Text("this machine has no such address; \"ip address\" lists those it has%s", of.all)
	case errors.Is(err, syscall.EINVAL):
		return failure.Text("an address that begins with fe80: needs its interface, as in fe80::1%%eth0")
	}
	return nil
}

// A Fallback describes another address that a service can use if it cannot get its own.
type Fallback struct {
	Name  string   // name of the service
	Asked []string // the addresses that the service cannot get
	Other string   // the address to use instead; "" if no other address is known
	Rival net.Addr // the address of a socket of the predecessor that has the port of one of Asked; nil without such a socket
}

// After returns the address Other, and prints that it is used, if err says that this process may
// not use the port of Asked, or that another server uses the port. In all other cases it returns
// nil, even if the predecessor uses the port.
func (f Fallback) After(err error, env *service.Env) []string {
	why, advice := "", ""
	switch {
	case f.Other == "":
		return nil
	case errors.Is(err, syscall.EACCES):
		why, advice = "no privilege for", "needs root or the capability CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRINUSE) && f.Rival == nil:
		why, advice = "another server has", "is free once that server is stopped; --"+f.Name+" ADDRESS chooses another"
	default:
		return nil
	}
	port := strings.TrimPrefix(f.Asked[0], ":")
	env.Say("%s port %s, taking %s instead (port %[2]s %[4]s)", why, port, f.Other, advice)
	return []string{f.Other}
}

// RivalAt returns the address of a socket of the predecessor that has the port of one of addrs, or
// nil if there is no such socket.
func RivalAt(passed *handover.Inherited, network string, addrs ...string) net.Addr {
	for _, addr := range addrs {
		if rival := passed.Rival(network, addr); rival != nil {
			return rival
		}
	}
	return nil
}

// Listen returns the sockets of a service: sockets that were passed to this process, or new ones.
// asked[i] is the configured address of sockets[i], or "" for a socket from systemd.
func Listen(ctx context.Context, cfg *settings.Config, passed *handover.Inherited, name string, addrs []string, o tcp.Options) (sockets []*tcp.Socket, asked []string, err error) {
	o.Congestion = cfg.Congestion
	places, err := passed.Stream(name, addrs, o)
	if err != nil {
		return nil, nil, congestionError(cfg.Congestion, failure.Listen.Wrap(err))
	}
	for _, p := range places {
		if p.Socket == nil && err == nil {
			if p.Socket, err = tcp.Listen(ctx, p.Addr, o); err != nil {
				err = congestionError(cfg.Congestion, ListenError(name, err, RivalAt(passed, "tcp", p.Addr)))
			}
		}
		if p.Socket != nil {
			sockets, asked = append(sockets, p.Socket), append(asked, p.Addr)
		}
	}
	return sockets, asked, err // the caller closes the sockets, even after an error
}

// congestionError turns an error about the congestion control into an error that names its setting.
func congestionError(name string, err error) error {
	refused, ok := errors.AsType[*tcp.CongestionError](err)
	if !ok {
		return err
	}
	advice := ""
	if errors.Is(err, fs.ErrNotExist) {
		advice = "; \"modprobe tcp_" + name + "\" may add it"
	}
	return failure.Mistake("tcp-congestion", "%s: %w%s", failure.Flag("tcp-congestion"), refused, advice)
}
