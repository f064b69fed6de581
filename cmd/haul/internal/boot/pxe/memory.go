package pxe

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// A Memory holds the information that a [Server] remembers about one machine, in a form that can be
// passed to another server. Its fields have tags for JSON.
type Memory struct {
	MAC    dhcp.MAC  `json:"mac"`
	Addr   dhcp.Addr `json:"addr,omitzero"`
	Class  Class     `json:"class"`
	Arch   Arch      `json:"arch"`
	HTTP   bool      `json:"http,omitzero"`
	Starts bool      `json:"starts,omitzero"`
	File   string    `json:"file,omitzero"`
	Form   Form      `json:"form,omitzero"`

	// These fields record which form of answers the machine accepts: see formMemory.
	Tried   Form      `json:"tried,omitzero"`
	Tries   uint8     `json:"tries,omitzero"`
	Proven  bool      `json:"proven,omitzero"`
	XID     uint32    `json:"xid,omitzero"`
	Offered time.Time `json:"offered,omitzero"`

	// These fields record when an iPXE that lacks a feature was sent to a better one: see
	// chainMemory.
	ChainXID uint32    `json:"chain_xid,omitzero"`
	Chained  time.Time `json:"chained,omitzero"`

	Stage Stage     `json:"stage"`
	Since time.Time `json:"since,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// Memories yields the memory of each machine. The machine that was answered last comes first.
func (s *Server) Memories() iter.Seq[Memory] {
	return func(yield func(Memory) bool) {
		for i := s.table.newest; i >= 0; i = s.table.machines[i].older {
			m := &s.table.machines[i]
			if !yield(Memory{
				MAC: m.mac, Addr: m.addr, File: m.file, Form: m.form,
				Class: m.client.Class, Arch: m.client.Arch, HTTP: m.client.HTTP, Starts: m.client.Starts,
				Tried: m.forms.form, Tries: m.forms.tries, Proven: m.forms.proven, XID: m.forms.xid, Offered: m.forms.at,
				ChainXID: m.chain.xid, Chained: m.chain.at,
				Stage: m.boot.stage, Since: m.boot.since, Last: m.boot.last,
			}) {
				return
			}
		}
	}
}

// Restore adds the memory that another server had of a machine. The machine then counts as the one
// that was answered last. If the server already knows the machine, nothing changes. Restore returns
// an error if m is not a valid memory.
func (s *Server) Restore(now time.Time, m Memory) error {
	if err := m.check(now); err != nil {
		return err
	}
	if s.table.find(m.MAC) != nil {
		return nil
	}
	to := s.table.use(m.MAC)
	to.client = Client{Class: m.Class, Arch: m.Arch, HTTP: m.HTTP, Starts: m.Starts}
	to.file, to.form = m.File, m.Form
	to.forms = formMemory{form: m.Tried, tries: m.Tries, proven: m.Proven, xid: m.XID, at: m.Offered}
	to.chain = chainMemory{xid: m.ChainXID, at: m.Chained}
	to.boot = boot{stage: m.Stage, since: m.Since, last: m.Last}
	to.shown = to.boot.at(now)
	s.table.leased(m.MAC, m.Addr)
	return nil
}

func (m *Memory) check(now time.Time) error {
	switch {
	case m.MAC == dhcp.MAC{}:
		return errors.New("a machine without a MAC")
	case m.Addr != dhcp.Addr{} && !m.Addr.Unicast():
		return fmt.Errorf("machine %v: %v is no address of a machine", m.MAC, m.Addr)
	case m.Class > Pi || m.Arch >= NumArchs || m.Form >= NumForms || m.Tried >= NumForms || m.Stage > Kernel:
		return fmt.Errorf("machine %v: a number is out of range", m.MAC)
	}
	for _, at := range []time.Time{m.Offered, m.Chained, m.Since, m.Last} {
		if at.After(now) {
			return fmt.Errorf("machine %v: %v is in the future", m.MAC, at)
		}
	}
	if m.File == "" {
		return nil
	}
	return checkFile(m.File)
}
