// Package boot models a machine that boots over the network. The model decides which server to ask,
// when to give up, and where to resume, but does not use the network itself.
//
// A [Machine] fetches a loader by TFTP and then an image by HTTP, as firmware does. A driver
// transfers the bytes: it does what [Machine.Order] says, and reports the results to Moved, Ended
// and Expire. Package bootload is a driver with real sockets. [Simulate] computes the transfers
// instead, for as many machines as a data center has.
//
// Nothing here reads a clock or opens a socket. All randomness follows from a seed.
package boot

import (
	"fmt"
	"time"
)

// A Firmware describes how a machine fetches its loader by TFTP.
type Firmware struct {
	Name      string
	BlockSize int // blksize that it requests, in bytes
	Window    int // windowsize that it requests; with 0 it requests none, and the window is one block

	// Repeat is the time after which the firmware first repeats a packet that got no answer.
	// Silence is the time without any answer after which it gives up.
	Repeat, Silence time.Duration

	// Pause is how long a machine waits after a failure before it tries to boot again.
	Pause time.Duration
}

// These are known kinds of firmware, with the values from their source code.
var (
	// EDK2 is the UEFI firmware of most machines and of QEMU. edk2, NetworkPkg/UefiPxeBcDxe:
	// PxeBcImpl.h has PXEBC_MTFTP_TIMEOUT 4 (s) and PXEBC_MTFTP_RETRIES 6, and
	// PXEBC_DEFAULT_PACKET_SIZE 1480, which includes 12 bytes for UDP and TFTP; NetworkPkg.dec has
	// PcdPxeTftpWindowSize 4.
	EDK2 = Firmware{Name: "edk2", BlockSize: 1468, Window: 4, Repeat: 4 * time.Second, Silence: 24 * time.Second, Pause: time.Second}

	// IPXE is iPXE: tftp.h has TFTP_MAX_BLKSIZE 1432, and it requests no window. Its timer
	// (retry.c, DEFAULT_MIN_TIMEOUT and DEFAULT_MAX_TIMEOUT in retry.h) begins with 0.25 s,
	// doubles, and fails above 10 s: after 0.25 + 0.5 + 1 + 2 + 4 + 8 s.
	IPXE = Firmware{Name: "ipxe", BlockSize: 1432, Repeat: 250 * time.Millisecond, Silence: 15750 * time.Millisecond, Pause: time.Second}
)

// Firmwares returns all known firmware.
func Firmwares() []Firmware { return []Firmware{EDK2, IPXE} }

// These constants describe how a machine fetches its image by HTTP. iPXE (httpcore.c) uses one
// connection, and waits for HTTP_RETRY_SECONDS, 5, if the server is busy. It reads the ranges that
// a SAN device needs (httpblock.c), so it can resume after a lost connection. Its command imgfetch,
// however, starts again from the beginning; Plan.NoResume models that.
const (
	busyPause = 5 * time.Second
	// firstPause is the first wait of iPXE's timer. Each further loss in a row doubles the wait, up
	// to longPause.
	firstPause = 250 * time.Millisecond
	longPause  = 8 * time.Second

	// DefaultStall is how long a machine waits for more data of its image before it gives up.
	DefaultStall = 20 * time.Second

	// DefaultAway is how long a machine stays off after it has lost power.
	DefaultAway = 30 * time.Second

	// DefaultTries is how many times in a row a machine may fail before it stays off.
	DefaultTries = 10
)

// A Plan holds the settings that all machines of a fleet share.
type Plan struct {
	Firmware Firmware
	// Loaders is the number of servers that have the loader. A machine chooses one of these
	// servers. 0 means that machines boot without a loader.
	Loaders int
	Images  int // number of servers that have the image

	Lost     float64       // share of the machines, 0 to 1, that lose power during the boot
	Away     time.Duration // how long a machine stays off after it has lost power
	Stall    time.Duration // the longest wait for more data of the image
	Tries    int           // number of failures in a row after which a machine stays off
	NoResume bool          // a machine does not resume an interrupted image, but fetches it from the start
	Seed     uint64
}

// Check returns an error if p is invalid. The error names the flag of "haul bench boot".
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

// dice is the random number generator splitmix64. Its numbers depend only on its seed.
type dice uint64

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	x := uint64(*d)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// part returns a random number from 0 up to, but not including, 1.
func (d *dice) part() float64 { return float64(d.next()>>11) / (1 << 53) }

// below returns a random number from 0 to n-1.
func (d *dice) below(n int) int { return int(d.next() % uint64(n)) }

// other returns the number of one of n servers at random. If there are several, it never returns
// `not`. If `not` is negative, it may return any server.
func (d *dice) other(n, not int) int {
	if n == 1 || not < 0 {
		return d.below(n)
	}
	return (not + 1 + d.below(n-1)) % n
}
