package suite

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// A contender is a server or a client to be measured.
type contender struct {
	record.Contender
	stores bool         // the server keeps uploads as files
	client *peer.Client // the stock client; nil means haul's load generator, or the client of the act
	pair   *peer.Pair   // for SFTP: the client and the server; nil for other protocols

	trade peer.Trade // for TCP: which answers the server can send

	// tune changes the job of an SFTP client. If it is nil, the job is not changed.
	tune func(*peer.SFTPJob)

	serverDelay bool // for SFTP: the server does not set TCP_NODELAY

	// start starts the server on a stage.
	start func(context.Context, *stage) (process, error)
}

// The ports of the first server on an emulated link, by protocol. Servers that start later may run
// at the same time, so they use the following ports.
const (
	tftpPort = 69
	sftpPort = 2200
)

// starter returns a function that starts the server p on a stage: see contender.start.
func starter(p *peer.Server) func(context.Context, *stage) (process, error) {
	return func(ctx context.Context, st *stage) (process, error) {
		o := peer.Options{Dir: st.root, ReadOnly: !st.sc.Write, Keys: st.keys, Delay: st.serverDelay}
		if st.link != nil {
			first := uint16(tftpPort)
			if st.sc.Protocol == record.SFTP {
				first = sftpPort
			}
			o.Addr = netip.AddrPortFrom(st.link.Addr(link.A), first+uint16(st.started))
			o.Command = st.serverCommand
		}
		if st.space != nil {
			o.Addr = netip.AddrPortFrom(peer.Loopback, httpPort+uint16(st.started))
			o.Command, o.Answer = st.serverCommand, st.answer()
		}
		if st.limit == nil {
			return p.Start(ctx, o)
		}
		return startHeld(ctx, p, o, st.limit)
	}
}

// startHeld starts a server and applies a limit to it.
func startHeld(ctx context.Context, s *peer.Server, o peer.Options, limit *throttle) (process, error) {
	var cmd *exec.Cmd
	start := o.Command
	if start == nil {
		start = exec.CommandContext
	}
	o.Command = func(ctx context.Context, name string, args ...string) *exec.Cmd {
		cmd = start(ctx, name, args...)
		return cmd
	}
	p, err := s.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := limit.join(cmd.Process.Pid); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// find returns the set of all contenders, with haul as the first server, and of the absent ones.
func (s *Suite) find() (peer.Set, error) {
	set := peer.Find(s.Peers)
	ours, err := peer.Haul("haul", s.Haul)
	if err != nil {
		return set, fmt.Errorf("%w; \"make build\" builds it, and --haul and --bin name another one", err)
	}
	// peer.Find returns the haul in the directory of programs, which is not always the haul to
	// test.
	isHaul := func(name string) bool { return family(name) == "haul" }
	set.Servers = slices.DeleteFunc(set.Servers, func(p peer.Server) bool { return isHaul(p.Name) })
	set.Servers = append(ours, set.Servers...)
	set.Absent = slices.DeleteFunc(set.Absent, func(a peer.Absentee) bool {
		return isHaul(a.Name) || protocolOf(a) != ""
	})
	pairs, absent := peer.Pairs(s.Peers, s.Haul) // these also contain the haul to test
	streams := peer.Streams(s.Peers, s.Haul)
	set.Pairs, set.Streams, set.Absent = pairs, streams.Streams, slices.Concat(set.Absent, absent, streams.Absent)
	if s.Before != "" {
		if err := s.addBefore(&set); err != nil {
			return set, err
		}
	}
	return set, s.known(set)
}

// choose removes the contenders that were not requested from the set.
func (s *Suite) choose(set *peer.Set) {
	set.Servers = slices.DeleteFunc(set.Servers, func(p peer.Server) bool { return !s.wanted(p.Name) })
	set.Pairs = slices.DeleteFunc(set.Pairs, func(p peer.Pair) bool { return !s.wanted(p.Name) })
	set.Streams = slices.DeleteFunc(set.Streams, func(p peer.Server) bool { return !s.wanted(p.Name) })
	set.Absent = slices.DeleteFunc(set.Absent, func(a peer.Absentee) bool { return !s.wanted(plainName(a)) })
}

// protocolOf returns the protocol of the scenarios in which an absent contender would take part, as
// in record.Scenario.
func protocolOf(a peer.Absentee) string {
	switch {
	case strings.HasSuffix(a.Name, peer.OfSFTP):
		return record.SFTP
	case strings.HasSuffix(a.Name, peer.OfTCP):
		return record.TCP
	}
	return ""
}

// plainName returns the name that an absentee would have as a contender.
func plainName(a peer.Absentee) string {
	return strings.TrimSuffix(strings.TrimSuffix(a.Name, peer.OfSFTP), peer.OfTCP)
}

// family returns the first word of a contender's name, such as "dnsmasq" for "dnsmasq single-port".
func family(name string) string {
	first, _, _ := strings.Cut(name, " ")
	return first
}

// known returns an error if a requested contender is neither in the set nor among the absent ones,
// so its name is wrong.
func (s *Suite) known(set peer.Set) error {
	var names []string
	for _, p := range set.Servers {
		names = append(names, p.Name)
	}
	for _, p := range set.Pairs {
		names = append(names, p.Name)
	}
	for _, p := range set.Streams {
		names = append(names, p.Name)
	}
	for _, a := range set.Absent {
		names = append(names, plainName(a))
	}
	for _, name := range s.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--peers: no contender is called %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// wanted reports whether a contender was requested. If no contender was requested by name, all
// contenders are wanted.
func (s *Suite) wanted(name string) bool {
	return len(s.Only) == 0 || slices.Contains(s.Only, name)
}

// takePart returns the contenders that take part in a scenario, and the contenders that are not
// tried because they are known to fail.
func takePart(sc Scenario, set peer.Set) (turns []contender, refused []refusal) {
	switch sc.Protocol {
	case record.SFTP:
		return pairsFor(sc, set)
	case record.TCP:
		return streamsFor(sc, set), nil
	}
	if sc.Group == emulatorGroup {
		if len(set.Servers) == 0 {
			return nil, nil // the requested contenders are absent
		}
		return []contender{emulator()}, nil
	}
	for i := range set.Servers {
		p := &set.Servers[i]
		if !sc.Who.includes(p) || sc.Write && !p.Writes() || !sc.Write && p.OnlyUploads {
			continue
		}
		c := contender{stores: p.Uploads == peer.Disk, start: starter(p), Contender: record.Contender{
			Name: p.Name, Version: p.Version, Build: p.Build, Note: note(p, sc.Write), Floor: p.Floor,
		}}
		if most := p.MaxConcurrent; most > 0 && sc.Concurrency > most {
			refused = append(refused, refusal{p.Name, errTooMany})
			continue
		}
		if sc.Who.own {
			if client, ok := set.Client(ownClients[p.Name]); ok {
				turns = append(turns, c.with(client, false))
			}
			continue
		}
		if len(sc.Who.clients) == 0 {
			turns = append(turns, c)
			continue
		}
		for _, name := range sc.Who.clients {
			client, ok := set.Client(name)
			if !ok {
				continue // the set of absent programs contains the reason
			}
			turns = append(turns, c.with(client, len(sc.Who.clients) > 1))
		}
	}
	return turns, refused
}

// with returns the contender c with a stock client. `measured` says that clients are compared: the
// contender then has the name of the client.
func (c contender) with(client *peer.Client, measured bool) contender {
	c.client = client
	c.Client = client.Name
	if measured {
		c.Server, c.Name, c.Version, c.Note = c.Name, client.Name, client.Version, client.Note
	}
	return c
}

// includes reports whether w selects a server.
func (w who) includes(p *peer.Server) bool {
	if w.windows && !p.Windows {
		return false
	}
	if len(w.names) == 0 {
		return !p.Variant && (w.floors || !p.Floor)
	}
	// The other build of haul takes part in all scenarios in which haul takes part.
	return slices.Contains(w.names, asHaul(p.Name))
}

// note returns the remark about a server for readers of the report.
func note(p *peer.Server, uploads bool) string {
	switch {
	case !uploads || p.Uploads == peer.Disk:
		return p.Note
	case p.Note == "":
		return fmt.Sprintf("uploads are %s", p.Uploads)
	}
	return fmt.Sprintf("uploads are %s; %s", p.Uploads, p.Note)
}
