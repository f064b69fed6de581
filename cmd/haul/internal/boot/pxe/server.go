package pxe

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// An Arrival describes how a packet arrived.
type Arrival struct {
	Port     uint16    // local port of the packet: dhcp.PortServer or dhcp.PortPXE
	From     dhcp.Addr // source address of the packet
	FromPort uint16

	// OnLink says that From is the address of a single host in a network of the interface on which
	// the packet arrived.
	OnLink bool

	// Unicast says that the packet was sent to an address of this server only. Such a packet may
	// come from another network.
	Unicast bool

	// Server is this server's address on that interface, or the address that clients must use
	// instead. The answer names it, and URLs in the answer contain it.
	Server dhcp.Addr
}

// An Answer is the result of handling a packet.
type Answer struct {
	Reason Reason // Answered, or the reason why there is no answer
	Packet []byte // packet to send, appended to the caller's buffer; nil if there is no answer

	// To and ToPort are the destination of the answer: a relay agent, the source of a request to
	// dhcp.PortPXE, or dhcp.Broadcast on the interface on which the request arrived.
	To     dhcp.Addr
	ToPort uint16

	MAC    dhcp.MAC
	Client Client
	Form   Form   // Direct or Redirect; AnyForm if there is no choice for this client
	File   string // name of the file on this server; "" if the client uses its own names
	URL    bool   // the answer contains the URL of the file instead of its name
}

// Why returns the reason as a text for people.
func (a *Answer) Why() string {
	if a.Reason == NoFile {
		return fmt.Sprintf("no boot file for %v", a.Client.Arch)
	}
	return a.Reason.String()
}

// A Machine is a boot client that a [Server] has answered.
type Machine struct {
	MAC    dhcp.MAC
	Addr   dhcp.Addr // address that the machine uses; zero if it is not known
	Client Client
	Form   Form
	File   string
	Stage  Stage
	Before Stage     // stage before the current one, if that is Quiet or Stuck
	Last   time.Time // time of the machine's latest request
}

// A Server decides which packets to answer, and how. It remembers up to [MaxMachines] machines,
// with the form of answers that each accepts, and with its stage. It has no lock: only one
// goroutine at a time may call its methods.
type Server struct {
	rules Rules
	table table
	rate  window
}

// NewServer returns a Server with a copy of the rules. If a rule is invalid, it returns an error
// that names the rule.
func NewServer(r Rules) (*Server, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return &Server{rules: r.clone(), table: newTable(MaxMachines)}, nil
}

// SetRules replaces the rules. The Server continues to remember its machines.
func (s *Server) SetRules(r Rules) error {
	if err := r.check(); err != nil {
		return err
	}
	s.rules = r.clone()
	return nil
}

// Handle handles one packet. If there is an answer, it is appended to buf. The answer has at most
// 576 bytes, does not assign an address (yiaddr is 0), and is sent only to boot clients.
func (s *Server) Handle(now time.Time, request []byte, from Arrival, buf []byte) Answer {
	p, err := dhcp.Parse(request)
	if err != nil {
		return Answer{Reason: Malformed}
	}
	a := Answer{MAC: p.MAC(), Client: classify(&p)}
	host := s.rules.Hosts[a.MAC]
	if r := s.admit(&p, from, &a, host); r != Answered {
		return a.refused(r)
	}
	if m := s.table.find(a.MAC); m != nil && m.rate.full(now, MaxRate) {
		return a.refused(MachineRate)
	}
	if s.rate.full(now, MaxTotalRate) {
		return a.refused(TotalRate) // do not remember this machine: that could make the server forget another machine
	}
	m := s.table.use(a.MAC)
	m.rate.count(now)
	s.rate.count(now)
	if from.Port == dhcp.PortPXE {
		s.table.leased(a.MAC, from.From)
	}
	chosen := s.choose(now, &p, from, &a, host, m)
	packet := appendReply(buf, &p, from, &a, chosen)
	if len(packet)-len(buf) > dhcp.MaxReply {
		return a.refused(tooLong)
	}
	a.Packet = packet
	m.client, m.file, m.form = a.Client, a.File, a.Form
	m.boot = m.boot.offered(now, a.Client.Class)
	m.shown = m.boot.at(now)
	return a
}

func (a *Answer) refused(r Reason) Answer {
	return Answer{Reason: r, MAC: a.MAC, Client: a.Client}
}

// admit decides whether to answer a client, without regard to rate limits, and where to send the
// answer.
func (s *Server) admit(p *dhcp.Packet, from Arrival, a *Answer, host Host) Reason {
	switch {
	case p.Op != dhcp.BootRequest:
		return notRequest
	case a.MAC == dhcp.MAC{}:
		return noMAC
	}
	if r := s.admitType(p, from, a); r != Answered {
		return r
	}
	if a.Client.Class == NoClass {
		return noBootClass
	}
	if host.Ignore {
		return hostIgnored
	}
	if _, known := s.rules.Hosts[a.MAC]; s.rules.KnownOnly && !known {
		return hostUnknown
	}
	return s.admitClass(from, a, host)
}

// admitType decides whether to answer a message, by its type and its source.
func (s *Server) admitType(p *dhcp.Packet, from Arrival, a *Answer) Reason {
	kind := p.Type()
	if from.Port == dhcp.PortPXE {
		a.To, a.ToPort = from.From, from.FromPort
		switch {
		case kind != dhcp.Request && kind != dhcp.Inform && kind != dhcp.Discover:
			return NotDiscover
		case !a.To.Unicast() || a.ToPort == 0 || !from.OnLink && !s.rules.relayed(a.To):
			return OffLink
		}
		return Answered
	}
	a.To, a.ToPort = dhcp.Broadcast, dhcp.PortClient
	switch {
	case kind != dhcp.Discover:
		if kind == dhcp.Request {
			s.leased(p)
		}
		return NotDiscover
	case p.RelayAddr == dhcp.Addr{}:
		if from.Unicast && !from.OnLink {
			return OffLink // a broadcast answer would reach a network other than the sender's
		}
		return Answered
	case !s.rules.relayed(p.RelayAddr):
		return otherRelay
	}
	a.To, a.ToPort = p.RelayAddr, dhcp.PortServer
	return Answered
}

// admitClass decides whether there is a file for the client.
func (s *Server) admitClass(from Arrival, a *Answer, host Host) Reason {
	switch a.Client.Class {
	case Pi, IPXE:
		return Answered
	case HTTPClient:
		if s.rules.httpPort(from.Server) == 0 {
			return noHTTP
		}
		if from.Port == dhcp.PortPXE {
			return httpAtPXE
		}
	}
	switch {
	case s.loader(a.Client.Arch, host) != "":
		return Answered
	case a.Client.Arch == UnknownArch:
		return noArch
	}
	return NoFile
}

// leased records the address that a boot client requests from the DHCP server, because the client
// will request files from that address.
func (s *Server) leased(p *dhcp.Packet) {
	addr := p.ClientAddr
	if value, ok := p.Option(dhcp.OptionAddress); ok && len(value) == len(addr) {
		addr = dhcp.Addr(value)
	}
	s.table.leased(p.MAC(), addr)
}

// loader returns the boot file for a machine. It returns "" if no boot file is configured for it.
func (s *Server) loader(arch Arch, host Host) string {
	if host.File != "" && !isScript(host.File) {
		return host.File
	}
	return s.rules.Files[arch]
}

func isScript(name string) bool { return strings.HasSuffix(name, ".ipxe") }

// choose decides the file and the form of an answer, and remembers both.
func (s *Server) choose(now time.Time, p *dhcp.Packet, from Arrival, a *Answer, host Host, m *machine) location {
	loc := location{name: s.loader(a.Client.Arch, host), port: s.rules.httpPort(from.Server)}
	if from.Port == dhcp.PortPXE || a.Client.Class == IPXE && m.client.Class == PXEClient {
		m.forms = m.forms.progress()
	}
	switch a.Client.Class {
	case Pi:
		loc.name = ""
	case HTTPClient:
		loc.scheme = "http://"
	case IPXE:
		s.chooseScript(now, p, a.Client, host, m, &loc)
	case PXEClient:
		a.Form = host.Form
		switch {
		case from.Port == dhcp.PortPXE:
			a.Form = Redirect
		case host.Form == AnyForm:
			first := Redirect
			if a.Client.Arch == BIOS {
				first = Direct
			}
			m.forms = m.forms.offer(now, p.XID, first)
			a.Form = m.forms.form
		}
	}
	a.File, a.URL = loc.name, loc.scheme != ""
	return loc
}

// chooseScript sets the location for an iPXE: that of its script or, if it lacks a feature, first
// that of a better iPXE.
func (s *Server) chooseScript(now time.Time, p *dhcp.Packet, c Client, host Host, m *machine, loc *location) {
	if lacks := !c.Starts || !c.HTTP && loc.port != 0; !lacks {
		m.chain = chainMemory{}
	} else if loc.name != "" {
		var again bool
		if again, m.chain = m.chain.loader(now, p.XID); again {
			return
		}
	}
	loc.name = ScriptName
	if isScript(host.File) {
		loc.name = host.File
	}
	loc.scheme = "tftp://"
	if c.HTTP && loc.port != 0 {
		loc.scheme = "http://"
	}
}

// Requested records that a machine has requested a file from this server, by TFTP or HTTP. It
// returns the machine, and reports whether its stage has changed.
func (s *Server) Requested(now time.Time, from dhcp.Addr, name string) (m Machine, changed bool) {
	at := s.table.at(from)
	if at == nil {
		return m, false
	}
	at.boot = at.boot.requested(now, name, at.file)
	at.forms = at.forms.progress()
	return at.machine(now), at.changed(now)
}

// Changes yields the machines that have become Quiet or Stuck since their stage was last returned,
// by Requested, by Changes or with an answer.
func (s *Server) Changes(now time.Time) iter.Seq[Machine] {
	return func(yield func(Machine) bool) {
		for i := range s.table.machines {
			if m := &s.table.machines[i]; m.changed(now) && !yield(m.machine(now)) {
				return
			}
		}
	}
}

// changed reports whether the machine's stage differs from the stage that was last returned, and
// records that the current stage is now returned.
func (m *machine) changed(now time.Time) bool {
	before := m.shown
	m.shown = m.boot.at(now)
	return m.shown != before
}

func (m *machine) machine(now time.Time) Machine {
	return Machine{m.mac, m.addr, m.client, m.form, m.file, m.boot.at(now), m.boot.stage, m.boot.last}
}

// Machines yields the remembered machines, with their stages at the given time. The machine that
// was answered last comes first.
func (s *Server) Machines(now time.Time) iter.Seq[Machine] {
	return func(yield func(Machine) bool) {
		for i := s.table.newest; i >= 0; i = s.table.machines[i].older {
			if m := &s.table.machines[i]; m.boot.stage != NoStage && !yield(m.machine(now)) {
				return
			}
		}
	}
}
