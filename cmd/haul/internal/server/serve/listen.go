package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tftp"
)

// listenAdvice is what the advice on an address says of each flag.
var listenAdvice = map[string]struct {
	free  string // an address that needs no privilege
	rival string // the server that most often has the port
	all   string // another kind of address to choose
}{
	handover.TFTP:    {free: ":6969"},
	handover.SFTP:    {free: ":2022", rival: " (on 22 most often sshd)"},
	handover.HTTP:    {free: ":8080"},
	handover.HTTPS:   {free: ":8443"},
	handover.Metrics: {free: ":9069", all: ", and :PORT is all of them"},
	handover.Status:  {free: "127.0.0.1:9070"},
}

// listenError adds to an error what the operator can do about it. The address was given
// by a flag, whose name is that of the service. rival is not nil if this server had the port
// before a reload, at that address.
func listenError(flag string, err error, rival net.Addr) error {
	advice, of := "", listenAdvice[flag]
	switch {
	case errors.Is(err, tftp.ErrNoPort):
		advice = "the range of --ports needs a free port for each address of --tftp, and one more for each processor is better"
	case errors.Is(err, syscall.EACCES):
		advice = fmt.Sprintf("ports below 1024 need root or CAP_NET_BIND_SERVICE; try --%s %s", flag, of.free)
	case errors.Is(err, syscall.EADDRINUSE) && rival != nil:
		advice = fmt.Sprintf("this server has that port, at %v, and both addresses cannot be open at a time; restart haul for this change", rival)
	case errors.Is(err, syscall.EADDRINUSE):
		advice = fmt.Sprintf("another server has that port%s; stop it, or choose another with --%s", of.rival, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = `this machine has no such address; "ip address" lists those it has` + of.all
	case errors.Is(err, syscall.EINVAL):
		advice = "an address that begins with fe80: needs its interface, as in fe80::1%eth0"
	}
	if flag != handover.TFTP { // package tftp names itself
		err = fmt.Errorf("%s: %w", flag, err)
	}
	if advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return failure.Listen.Wrap(err)
}

// fallbackAddrs are where services listen that nobody has named if they cannot have their
// own port.
var fallbackAddrs = map[string]string{handover.TFTP: ":6969", handover.HTTP: ":8080"}

// fallBack returns another address for a service if err is that of a port which this
// process cannot have. Otherwise it returns nil: so it does if the port is this server's own,
// at the address of rival.
func (cfg *Config) fallBack(out io.Writer, service string, asked []string, err error, rival net.Addr) []string {
	why, advice := "", ""
	switch {
	case errors.Is(err, syscall.EACCES):
		why, advice = "no privilege for", "needs root or the capability CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRINUSE) && rival == nil:
		why, advice = "another server has", "is free once that server is stopped; --"+service+" ADDRESS chooses another"
	default:
		return nil
	}
	port, other := strings.TrimPrefix(asked[0], ":"), fallbackAddrs[service]
	cfg.say(out, "%s port %s, taking %s instead (port %[2]s %[4]s)", why, port, other, advice)
	return []string{other}
}

// rivalAt returns the address at which the predecessor itself has the port of one of
// the addresses, or nil.
func rivalAt(passed *handover.Inherited, network string, addrs ...string) net.Addr {
	for _, addr := range addrs {
		if rival := passed.Rival(network, addr); rival != nil {
			return rival
		}
	}
	return nil
}

// listenTCP returns the sockets of a service: those that were passed to this process,
// or new ones. Item i of asked is the address of socket i as configured; "" is systemd's.
func (cfg *Config) listenTCP(ctx context.Context, passed *handover.Inherited, service string, addrs []string, o tcp.Options) (sockets []*tcp.Socket, asked []string, err error) {
	o.Congestion = cfg.Congestion
	places, err := passed.Stream(service, addrs, o)
	if err != nil {
		return nil, nil, cfg.congestionError(failure.Listen.Wrap(err))
	}
	for _, p := range places {
		if p.Socket == nil && err == nil {
			if p.Socket, err = tcp.Listen(ctx, p.Addr, o); err != nil {
				err = cfg.congestionError(listenError(service, err, rivalAt(passed, "tcp", p.Addr)))
			}
		}
		if p.Socket != nil {
			sockets, asked = append(sockets, p.Socket), append(asked, p.Addr)
		}
	}
	return sockets, asked, err // the service closes them
}

// congestionError makes a mistake in a setting of an error that is one.
func (cfg *Config) congestionError(err error) error {
	refused, ok := errors.AsType[*tcp.CongestionError](err)
	if !ok {
		return err
	}
	advice := ""
	if errors.Is(err, fs.ErrNotExist) {
		advice = "; \"modprobe tcp_" + cfg.Congestion + "\" may add it"
	}
	return failure.Mistake("tcp-congestion", "--tcp-congestion: %w%s", refused, advice)
}

// restrict has a server refuse what --allow and --deny do. All that it refuses is counted
// and logged.
func (cfg *Config) restrict(s *tcp.Server, away *refusedConns) {
	s.Allow, s.Deny = cfg.Allow, cfg.Deny
	s.Refused = func(from net.Addr, why error) {
		cause := string(penalty.TooManyConns)
		switch {
		case errors.Is(why, tcp.ErrDenied):
			cause = notAllowed
		case errors.Is(why, tcp.ErrSourceFull):
			cause = string(penalty.TooManyOfSource)
		}
		away.add(from, cause)
	}
}
