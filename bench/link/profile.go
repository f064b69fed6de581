package link

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Way describes one direction of a link. The zero Way carries all packets without delay.
type Way struct {
	Delay time.Duration // time from the last bit sent to the last bit received; at least 0
	Rate  int64         // rate of frames, including [Profile.Overhead], in bit/s; 0 means no limit
	// Queue is how many bytes of frames may wait because of the rate; further frames are dropped. 0
	// means [DefaultQueue].
	Queue     int
	Loss      float64 // fraction of packets that never arrive, 0 to 1
	Duplicate float64 // fraction of packets that arrive twice, 0 to 1
	Reorder   float64 // fraction of packets that are held back until others have overtaken them, 0 to 1
}

// DefaultQueue is the default of [Way.Queue], in bytes: the 1,000 full frames that a Linux device
// queues by default. A shorter queue would drop a part of a window that its sender hands over in
// one call.
const DefaultQueue = 1000 * 1502

func (w Way) queue() int {
	if w.Queue == 0 {
		return DefaultQueue
	}
	return w.Queue
}

// airtime returns how long a frame of the given size takes at the way's rate.
func (w Way) airtime(frame int) time.Duration {
	if w.Rate == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(frame) * 8e9 / float64(w.Rate)))
}

// A Profile describes a link to emulate, by its effects on packets in each direction.
type Profile struct {
	Name string
	Note string // one line that describes the link, for people

	// Ways describes the direction of the packets that side A sends, and then the other direction.
	Ways [2]Way

	// Overhead is how many bytes a packet's frame adds to the IP packet on the link, and MinFrame
	// is the smallest frame, including Overhead. For Ethernet, Overhead is 14 for the header, 4 for
	// the checksum, 8 for the preamble and 12 for the gap, and MinFrame is 84.
	Overhead, MinFrame int

	// Seed decides which packets are lost, duplicated and reordered: the nth packet of a way has
	// the same fate in each run.
	Seed uint64
}

// headers is the size of the headers around a TFTP block or acknowledgement in an IP packet: IPv4
// 20, UDP 8, opcode and block number 4.
const headers = 20 + 8 + 4

// documentBlock is the block size, in bytes, of the measurements in the documents that the goals
// come from.
const documentBlock = 1432

func (p *Profile) frame(packet int) int { return max(packet+p.Overhead, p.MinFrame) }

// Cycle returns the minimum duration of a TFTP block of `block` bytes and its acknowledgement, when
// side A sends the block. It consists of the time on the wire and the delay of both packets, and
// includes no time for the programs at the ends.
func (p *Profile) Cycle(block int) time.Duration {
	there, back := p.Ways[A], p.Ways[B]
	return there.airtime(p.frame(block+headers)) + there.Delay + back.airtime(p.frame(headers)) + back.Delay
}

// Bound returns the highest rate of TFTP from side A to side B, in bytes a second, without loss, if
// each window waits for the acknowledgement of the one before. It is infinite if the link has
// neither a rate nor a delay.
func (p *Profile) Bound(block, window int) float64 {
	behind := time.Duration(window-1) * p.Ways[A].airtime(p.frame(block+headers))
	return float64(window*block) / (p.Cycle(block) + behind).Seconds()
}

// Check returns an error if a value of the profile is out of range.
func (p *Profile) Check() error {
	for side, w := range p.Ways {
		for _, chance := range []float64{w.Loss, w.Duplicate, w.Reorder} {
			if !(chance >= 0 && chance <= 1) {
				return fmt.Errorf("link %s: side %s: a fraction of %g is not between 0 and 1", p.Name, Side(side), chance)
			}
		}
		if w.Delay < 0 || w.Delay > maxDelay {
			return fmt.Errorf("link %s: side %s: a delay of %s is not between 0 and %s", p.Name, Side(side), w.Delay, maxDelay)
		}
		if w.Rate < 0 || w.Rate > 0 && w.Rate < minRate {
			return fmt.Errorf("link %s: side %s: a rate of %d bit/s is below %d; 0 is unlimited", p.Name, Side(side), w.Rate, minRate)
		}
		if w.Queue < 0 || w.Queue > maxQueue {
			return fmt.Errorf("link %s: side %s: a queue of %d bytes is not between 0 and %d", p.Name, Side(side), w.Queue, maxQueue)
		}
	}
	return nil
}

const (
	maxDelay = 10 * time.Second
	minRate  = 1000          // in bit/s; a full frame then takes 12 s
	maxQueue = arenaSize / 2 // in bytes; the queue must fit into the memory next to the packets under way
)

// Cycle times of the profiles, for a block of 1,432 bytes and its acknowledgement. They follow from
// the rates in the documents: 2.97 MB/s there are 1,432 bytes in 0.48 ms. 128 blocks in a cycle are
// 3.9 times as fast, "4x" in the documents; likewise 27x for the VPN and about 10x for the gigabit.
const (
	lan1gCycle   = 140 * time.Microsecond
	lan100mCycle = 480 * time.Microsecond
	vpnCycle     = 10100 * time.Microsecond
)

// Profiles returns the profiles of the links on which the suite measures. [Lookup] finds them by
// name, and variants of them.
func Profiles() []Profile {
	lossy := ethernet("lossy", "Ethernet at 1 Gb/s, 0.5 ms, 1 % lost each way", 1e9, 500*time.Microsecond)
	lossy.lose(0.01)
	return []Profile{
		ethernet("lan1g", "Ethernet at 1 Gb/s: a block and its ACK in 0.14 ms", 1e9, lan1gCycle),
		ethernet("lan100m", "Ethernet at 100 Mb/s: a block and its ACK in 0.48 ms", 100e6, lan100mCycle),
		tunnel("vpn", "a VPN with 40 Mb/s of IP packets: a block and its ACK in 10.1 ms", 40e6, vpnCycle),
		distance("rtt9", 9*time.Millisecond),
		distance("rtt20", 20*time.Millisecond),
		distance("rtt100", 100*time.Millisecond),
		lossy,
	}
}

// ethernet makes a profile that counts frames as they are on the wire.
func ethernet(name, note string, rate int64, cycle time.Duration) Profile {
	p := Profile{Name: name, Note: note, Overhead: 38, MinFrame: 84, Seed: 1}
	p.fit(rate, cycle)
	return p
}

// tunnel makes a profile whose rate counts IP packets, as users of a tunnel see them. It leaves out
// the overhead of the tunnel's own packets.
func tunnel(name, note string, rate int64, cycle time.Duration) Profile {
	p := Profile{Name: name, Note: note, Seed: 1}
	p.fit(rate, cycle)
	return p
}

// distance makes a profile that only delays packets, by half of roundTrip in each direction.
func distance(name string, roundTrip time.Duration) Profile {
	p := Profile{Name: name, Note: fmt.Sprintf("%s there and back, unlimited rate", roundTrip), Overhead: 38, MinFrame: 84, Seed: 1}
	p.fit(0, roundTrip)
	return p
}

// fit sets the rate of both directions, and chooses the delays so that a block of documentBlock
// bytes and its acknowledgement take the time `cycle`: each delay is half of the time that remains
// after the time on the wire.
func (p *Profile) fit(rate int64, cycle time.Duration) {
	p.Ways = [2]Way{{Rate: rate}, {Rate: rate}}
	delay := (cycle - p.Cycle(documentBlock)) / 2
	p.Ways[A].Delay, p.Ways[B].Delay = delay, delay
}

func (p *Profile) lose(fraction float64) {
	for i := range p.Ways {
		p.Ways[i].Loss += fraction
	}
}

// withLoss is the suffix of a profile's name that adds 1 % of loss in each direction.
const withLoss = "+loss"

// Lookup returns the profile with a name. The suffix "+loss" of a name adds 1 % of loss in each
// direction.
func Lookup(name string) (Profile, error) {
	base, lossy := strings.CutSuffix(name, withLoss)
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == base })
	if i < 0 {
		var known []string
		for _, p := range all {
			known = append(known, p.Name)
		}
		return Profile{}, fmt.Errorf("no link profile is called %q; there are %s, each also with %s",
			base, strings.Join(known, ", "), withLoss)
	}
	p := all[i]
	if lossy {
		p.Name = name
		p.Note += "; 1 % more lost each way"
		p.lose(0.01)
	}
	return p, nil
}

// A Side is an end of a link.
type Side int

// The two sides. If it matters on which side a server runs, it runs on A.
const (
	A Side = iota
	B
)

// String returns "a" or "b".
func (s Side) String() string { return [2]string{"a", "b"}[s] }

// Other returns the other side.
func (s Side) Other() Side { return 1 - s }
