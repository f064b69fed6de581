package boot

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// These are costs of haul, measured on two cores of a virtual machine, over loopback: see
// docs/benchmarks.md.
const (
	// PacketCPU is the server's CPU time, in seconds, for a TFTP DATA packet and its ACK, with
	// 10,000 transfers at the same time and a window of one block. With a larger window, a packet
	// costs less.
	PacketCPU = 4.24e-6

	// ByteCPU is the server's CPU time, in seconds, for a byte sent by HTTP, without TLS, from the
	// page cache.
	ByteCPU = 0.097e-9
)

// These constants are the bytes on the wire in addition to the content. A TFTP packet has 38 bytes
// for Ethernet, including preamble and gap, 20 for IP, 8 for UDP and 4 for TFTP. An HTTP packet has
// 20 bytes for TCP and 12 for its time stamps instead of UDP and TFTP, and 1448 bytes of content.
const (
	tftpOverhead = 38 + 20 + 8 + 4
	tcpSegment   = 1448
	tcpPacket    = 1538
)

// Gigabit is 1 Gb/s, in bytes per second.
const Gigabit = 1e9 / 8

// MaxSimulated is the largest number of machines in a Site, and MaxReplicas of replicas.
const (
	MaxSimulated = 1_000_000
	MaxReplicas  = 10_000
)

// maxContent is the largest number of bytes that all machines together may fetch, and maxSpan the
// longest time that a site may take. Machines fetch lost files again, so both limits leave ample
// room before an overflow.
const (
	maxContent = 1 << 56
	maxSpan    = 10 * 365 * 24 * time.Hour
)

// A Site is the input of [Simulate]: machines, replicas of haul, and the store with the files.
// Rates are in bytes per second on the wire.
type Site struct {
	Machines    int
	Arrival     Arrival
	MachineLink float64       // rate of a machine's link
	RoundTrip   time.Duration // round-trip time between a machine and a replica

	Replicas int
	Link     float64 // rate of a replica's link
	Cores    float64 // number of cores of a replica

	Loader, Image int64 // sizes in bytes; 0 means that there is no such file

	Store float64 // rate of the store's link, which all replicas share
	Cache bool    // replicas keep files that they have fetched

	// LostAt is the time at which a replica is lost, and BackAt the time at which it returns with
	// an empty cache; 0 means never. Withdraw is how long after the loss machines still try to
	// reach that replica.
	LostAt, BackAt, Withdraw time.Duration

	Plan Plan // Simulate sets its Loaders and Images
}

// DefaultSite returns a site with ten thousand machines that are switched on within five minutes, a
// replica with 10 Gb/s and four cores, and a loader and an image of common sizes.
func DefaultSite() Site {
	return Site{
		Machines: 10_000, Arrival: Arrival{Over: 5 * time.Minute}, MachineLink: Gigabit, RoundTrip: 500 * time.Microsecond,
		Replicas: 1, Link: 10 * Gigabit, Cores: 4,
		Loader: 1_000_000, Image: 60_000_000,
		Store: 10 * Gigabit, Cache: true, Withdraw: 5 * time.Second,
		Plan: Plan{Firmware: EDK2, Stall: DefaultStall, Tries: DefaultTries, Away: DefaultAway, Seed: 1},
	}
}

// Check returns an error if s is invalid. The error names the flag of "haul bench boot".
func (s *Site) Check() error {
	switch {
	case s.Machines < 1 || s.Machines > MaxSimulated:
		return fmt.Errorf("machines %d: must be 1 to %d with --simulate", s.Machines, MaxSimulated)
	case s.Replicas < 1 || s.Replicas > MaxReplicas:
		return fmt.Errorf("replicas %d: must be 1 to %d", s.Replicas, MaxReplicas)
	case !(s.Link > 0 && s.Link <= 1e6*Gigabit):
		return fmt.Errorf("link %v: must be above 0 and at most a million Gb/s", s.Link/Gigabit)
	case !(s.Store > 0 && s.Store <= 1e6*Gigabit):
		return fmt.Errorf("store-link %v: must be above 0 and at most a million Gb/s", s.Store/Gigabit)
	case !(s.Cores > 0 && s.Cores <= 1e6):
		return fmt.Errorf("cores %v: must be above 0", s.Cores)
	case s.Loader < 0 || s.Image < 0:
		return errors.New("loader-size and --image-size: must be 0 or more")
	case s.Loader == 0 && s.Image == 0:
		return errors.New("loader-size and --image-size are both 0: say how much the machines fetch")
	case !(s.MachineLink > 0 && s.MachineLink <= 1e6*Gigabit):
		return fmt.Errorf("machine-link %v: must be above 0 and at most a million Gb/s", s.MachineLink/Gigabit)
	case s.RoundTrip <= 0 || s.RoundTrip > time.Minute:
		return fmt.Errorf("round-trip %v: must be above 0 and at most a minute", s.RoundTrip)
	case s.LostAt < 0 || s.BackAt < 0 || s.BackAt > 0 && (s.LostAt == 0 || s.BackAt <= s.LostAt):
		return errors.New("replica-back must be after --replica-lost")
	case s.Withdraw < 0:
		return fmt.Errorf("withdraw %v: must be 0 or more", s.Withdraw)
	case float64(s.Machines)*(float64(s.Loader)+float64(s.Image)) > maxContent:
		return errors.New("loader-size and --image-size: all machines together must fetch 64 PiB at most")
	case s.span() > maxSpan.Seconds() || max(s.LostAt, s.BackAt, s.Withdraw) > maxSpan:
		return errors.New("link, --machine-link, --store-link, --cores and times: this takes more than ten years")
	}
	return s.Plan.Check()
}

// perByte returns the cost of one byte of content, by TFTP (index 0) and by HTTP (index 1): wire is
// in bytes on the link, cpu in seconds of CPU time.
func (s *Site) perByte() (wire, cpu [2]float64) {
	block := float64(s.Plan.Firmware.BlockSize)
	wire = [2]float64{(block + tftpOverhead) / block, float64(tcpPacket) / tcpSegment}
	cpu = [2]float64{PacketCPU / block, ByteCPU}
	return wire, cpu
}

// span returns the time, in seconds, that the slowest link or the cores need to transfer all
// content.
func (s *Site) span() float64 {
	wire, cpu := s.perByte()
	n, l, i := float64(s.Machines), float64(s.Loader), float64(s.Image)
	one := l*wire[0] + i*wire[1]
	return max(n*one/s.Link, n*(l*cpu[0]+i*cpu[1])/s.Cores, n*one/s.Store, one/s.MachineLink)
}

// A Bound holds lower bounds for the time that a site takes, which are computed without a
// simulation. No simulation is faster.
type Bound struct {
	Bytes   int64         // total content for all machines, in bytes
	Link    time.Duration // time that the links of all replicas need to carry the content
	CPU     time.Duration // time that the cores of all replicas need to send the content
	Arrival time.Duration // time until the last machine is switched on
}

// Bound returns the lower bounds for a site, without regard to losses.
func (s *Site) Bound() Bound {
	wire, cpu := s.perByte()
	n, l, i := float64(s.Machines), float64(s.Loader), float64(s.Image)
	links, cores := float64(s.Replicas)*s.Link, float64(s.Replicas)*s.Cores
	return Bound{
		Bytes:   int64(s.Machines) * (s.Loader + s.Image),
		Link:    seconds(n * (l*wire[0] + i*wire[1]) / links),
		CPU:     seconds(n * (l*cpu[0] + i*cpu[1]) / cores),
		Arrival: s.Arrival.Times(s.Machines, s.Plan.Seed)[s.Machines-1],
	}
}

// ReplicasFor returns the smallest number of replicas whose links can carry all content within the
// given time.
func (s *Site) ReplicasFor(within time.Duration) int {
	one := *s
	one.Replicas = 1
	need := int((one.Bound().Link + within - 1) / within)
	return max(1, need)
}

// seconds converts s, which is in seconds, to a Duration. It rounds, so a duration that is
// converted to seconds and back stays the same.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
