package status

import (
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

// The types below define the JSON that programs get: docs/status.md describes them. Sizes are in
// bytes, rates in bytes a second, times in UTC and durations in seconds.

// Info is the answer to /api/v1/info.
type Info struct {
	Version   string    `json:"version"`
	Host      string    `json:"host,omitempty"`
	Time      time.Time `json:"time"`
	Started   time.Time `json:"started"`
	Draining  bool      `json:"draining"` // the server is shutting down, and waits for transfers
	Protocols []Totals  `json:"protocols"`
}

// Totals holds the counts of a protocol since the start.
type Totals struct {
	Protocol string `json:"protocol"`
	Live     int64  `json:"live"`  // transfers under way
	Rate     int64  `json:"rate"`  // rate of all transfers under way together
	Bytes    int64  `json:"bytes"` // bytes moved by all transfers
	Ended    int64  `json:"ended"` // transfers that have ended
	Failed   int64  `json:"failed"`

	// TurnedAway is the number of requests refused because of a limit, by reason.
	TurnedAway map[meter.Reason]int64 `json:"turned_away"`
}

// Transfers is the answer to /api/v1/transfers.
type Transfers struct {
	Time      time.Time  `json:"time"`
	Total     int        `json:"total"`     // number of transfers under way
	Transfers []Transfer `json:"transfers"` // the fastest first, as many as requested
}

// A Transfer is a transfer under way.
type Transfer struct {
	ID        uint64    `json:"id"`
	Protocol  string    `json:"protocol"`
	Direction string    `json:"direction"` // "read" or "write", from the client's side
	Peer      string    `json:"peer"`
	User      string    `json:"user,omitempty"`
	File      string    `json:"file"`
	FileBytes []byte    `json:"file_bytes,omitempty"` // the bytes of the name, if it is not UTF-8
	Started   time.Time `json:"started"`
	Bytes     int64     `json:"bytes"` // bytes moved
	Size      *int64    `json:"size,omitempty"`
	Rate      int64     `json:"rate"` // rate during the last seconds

	// These fields are only for TFTP.
	Window    int     `json:"window,omitempty"`     // the window, in blocks
	RoundTrip float64 `json:"round_trip,omitempty"` // the smoothed round trip
	Resent    int64   `json:"resent,omitempty"`     // packets sent again
}

// Series is the answer to /api/v1/series.
type Series struct {
	Time      time.Time        `json:"time"` // time of the latest sample
	Step      float64          `json:"step"` // time between samples
	Protocols []ProtocolSeries `json:"protocols"`
}

// A ProtocolSeries holds the samples of a protocol, the oldest first.
type ProtocolSeries struct {
	Protocol string  `json:"protocol"`
	Bytes    []int64 `json:"bytes"`  // bytes moved in this step
	Live     []int64 `json:"live"`   // transfers under way at the end of the step
	Ended    []int64 `json:"ended"`  // transfers that ended in this step
	Failed   []int64 `json:"failed"` // transfers that failed in this step
	Sent     []int64 `json:"sent"`   // packets sent, counted when a transfer ends
	Resent   []int64 `json:"resent"` // packets sent again, counted when a transfer ends
}

// Failures is the answer to /api/v1/failures.
type Failures struct {
	Time     time.Time `json:"time"`
	Failures []Failure `json:"failures"` // the latest first
}

// A Failure is a transfer that failed.
type Failure struct {
	ID        uint64    `json:"id"`
	Time      time.Time `json:"time"`
	Protocol  string    `json:"protocol"`
	Direction string    `json:"direction"`
	Peer      string    `json:"peer"`
	User      string    `json:"user,omitempty"`
	File      string    `json:"file"`
	FileBytes []byte    `json:"file_bytes,omitempty"`
	Result    string    `json:"result"` // how the transfer ended, in the same word as in the log
	Cause     string    `json:"cause,omitempty"`
	Advice    string    `json:"advice,omitempty"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`
}

// Machines is the answer to /api/v1/machines.
type Machines struct {
	Time     time.Time      `json:"time"`
	Stages   map[string]int `json:"stages"`   // how many machines are at each stage
	Machines []Machine      `json:"machines"` // stuck machines first
}

// A Machine describes a machine that is booting, or has booted recently.
type Machine struct {
	MAC     string    `json:"mac"`
	Address string    `json:"address,omitempty"`
	Client  string    `json:"client"` // the program that sent the last request: "PXE", "iPXE"
	Arch    string    `json:"arch"`
	Stage   string    `json:"stage"`
	Before  string    `json:"before,omitempty"` // the stage before the present one, if that is "stuck" or "quiet"
	File    string    `json:"file,omitempty"`   // the file that was offered to the machine
	Last    time.Time `json:"last"`             // time of the machine's latest request
	Age     float64   `json:"age"`              // time since the machine's latest request
}

func newTransfer(s *meter.Snapshot, rate int64) Transfer {
	t := Transfer{
		ID: s.ID, Protocol: string(s.Protocol), Direction: direction(s.Write), Peer: peerText(s.Peer), User: valid(s.User), File: valid(s.Name), FileBytes: invalid(s.Name),
		Started: s.Began.UTC(), Bytes: s.Bytes, Rate: rate, Window: s.Window, RoundTrip: seconds(s.RTT), Resent: s.Resent,
	}
	if s.Size > 0 {
		size := max(s.Size, s.Bytes)
		t.Size = &size
	}
	return t
}

func newMachine(m *pxe.Machine, now time.Time) Machine {
	out := Machine{
		MAC: m.MAC.String(), Client: m.Client.Class.String(), Arch: m.Client.Arch.String(), Stage: m.Stage.String(), File: valid(m.File),
		Last: m.Last.UTC(), Age: seconds(max(now.Sub(m.Last), 0)),
	}
	if m.Addr != (dhcp.Addr{}) {
		out.Address = m.Addr.String()
	}
	if m.Stage == pxe.Stuck || m.Stage == pxe.Quiet {
		out.Before = m.Before.String()
	}
	return out
}

// Stages returns the stages of machines, in the order in which they are shown.
func Stages() []string {
	var all []string
	for _, s := range []pxe.Stage{pxe.Stuck, pxe.Offered, pxe.Loader, pxe.Script, pxe.Kernel, pxe.Quiet} {
		all = append(all, s.String())
	}
	return all
}

// byStage returns the number of machines at each stage.
func byStage(machines []Machine) map[string]int {
	counts := map[string]int{}
	for _, s := range Stages() {
		counts[s] = 0
	}
	for i := range machines {
		counts[machines[i].Stage]++
	}
	return counts
}

func direction(write bool) string {
	if write {
		return "write"
	}
	return "read"
}

// peerText returns an address as text, or "" if the address is not known. IPv6 sockets report an
// IPv4 address in an IPv6 form; peerText writes it as an IPv4 address.
func peerText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

// seconds returns a duration in seconds, rounded to microseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

// valid replaces invalid UTF-8 in a string, because a stranger may have sent the string.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// invalid returns the bytes of a string that is not UTF-8, and nil for any other string.
func invalid(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// clip returns the beginning of a string, at most the given number of bytes, without splitting a
// character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for end := most; end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:most]
}
