// Package boot is a machine that boots over the network, without a network: it decides
// which server to ask, when to give up, and where to continue.
//
// A [Machine] fetches a loader by TFTP and then an image by HTTP, as firmware does. A
// driver moves the bytes: it does what [Machine.Order] says, and reports what happens
// to Moved, Ended and Expire. Package bootload does so with sockets, and [Simulate] with
// figures, for as many machines as a data center has.
//
// Nothing here reads a clock or opens a socket. All that is random follows from a seed.
package boot

import (
	"fmt"
	"time"
)

// A Firmware is how a machine fetches its loader by TFTP.
type Firmware struct {
	Name      string
	BlockSize int // blksize that it asks for, in bytes
	Window    int // windowsize that it asks for; 0 asks for none: 1

	// Repeat is the shortest wait before a packet is sent again, and Silence how long
	// the firmware hears nothing before it gives up.
	Repeat, Silence time.Duration

	// Pause is how long a machine waits before it tries to boot again.
	Pause time.Duration
}

// The values of firmware that is in use.
var (
	// EDK2 is the UEFI firmware of most machines and of QEMU. edk2,
	// NetworkPkg/UefiPxeBcDxe: PxeBcImpl.h has PXEBC_MTFTP_TIMEOUT 4 (s) and
	// PXEBC_MTFTP_RETRIES 6, and PXEBC_DEFAULT_PACKET_SIZE 1480, of which UDP and TFTP
	// take 12; NetworkPkg.dec has PcdPxeTftpWindowSize 4.
	EDK2 = Firmware{Name: "edk2", BlockSize: 1468, Window: 4, Repeat: 4 * time.Second, Silence: 24 * time.Second, Pause: time.Second}

	// IPXE is iPXE: tftp.h has TFTP_MAX_BLKSIZE 1432, and it asks for no window. Its
	// timer (retry.c, DEFAULT_MIN_TIMEOUT and DEFAULT_MAX_TIMEOUT in retry.h) begins
	// with 0.25 s, doubles, and fails above 10 s: after 0.25 + 0.5 + 1 + 2 + 4 + 8 s.
	IPXE = Firmware{Name: "ipxe", BlockSize: 1432, Repeat: 250 * time.Millisecond, Silence: 15750 * time.Millisecond, Pause: time.Second}
)

// Firmwares returns the firmware that a machine may have.
func Firmwares() []Firmware { return []Firmware{EDK2, IPXE} }

// How a machine fetches its image by HTTP. iPXE (httpcore.c) has one connection, and
// waits HTTP_RETRY_SECONDS, 5, if the server has no time for it. It reads ranges from
// where a SAN device needs them (httpblock.c), and so continues after a loss; its imgfetch
// begins anew, which Plan.NoResume plays.
const (
	busyPause  = 5 * time.Second
	firstPause = 250 * time.Millisecond // as iPXE's timer begins; doubled for each loss in a row
	longPause  = 8 * time.Second

	// DefaultStall is how long a machine waits for more of its image.
	DefaultStall = 20 * time.Second

	// DefaultAway is how long a machine is off when it loses power.
	DefaultAway = 30 * time.Second

	// DefaultTries is how often in a row a machine may fail before it is left alone.
	DefaultTries = 10
)

// A Plan is what all machines of a fleet have in common.
type Plan struct {
	Firmware Firmware
	Loaders  int // servers of the loader, of which a machine chooses one; 0: there is no loader
	Images   int // the same of the image

	Lost     float64       // the part of the machines, 0 to 1, that lose power while they boot
	Away     time.Duration // how long those are off
	Stall    time.Duration // the longest wait for more of the image
	Tries    int           // most failures in a row
	NoResume bool          // a lost image is fetched from its begin
	Seed     uint64
}

// Check reports what is wrong with p. It names the flag of "haul bench boot".
func (p *Plan) Check() error {
	switch {
	case p.Tries < 1:
		return fmt.Errorf("tries %d: must be above 0", p.Tries)
	case p.Stall <= 0:
		return fmt.Errorf("stall %v: must be above 0", p.Stall)
	case p.Away < 0:
		return fmt.Errorf("away %v: must be 0 or more", p.Away)
	case !(p.Lost >= 0 && p.Lost <= 1):
		return fmt.Errorf("lost %v: must be 0 to 100 percent", 100*p.Lost)
	}
	return nil
}

// dice are random numbers that follow from a seed: the generator splitmix64.
type dice uint64

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	x := uint64(*d)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// part returns a number from 0 to below 1.
func (d *dice) part() float64 { return float64(d.next()>>11) / (1 << 53) }

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int { return int(d.next() % uint64(n)) }

// other returns one of n servers, another one than not if there is one.
func (d *dice) other(n, not int) int {
	if n == 1 || not < 0 {
		return d.below(n)
	}
	return (not + 1 + d.below(n-1)) % n
}
