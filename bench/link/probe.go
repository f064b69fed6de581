package link

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the names of the probes, with their arguments. Probes measure a link with as little
// work as possible: with blocking sockets, raw system calls, and one process at each side.
const (
	probeEcho   = "echo"   // LOCAL: answers each datagram with its first four bytes
	probePing   = "ping"   // PEER SIZE COUNT PATIENCE: sends a datagram after each answer; prints a Ping
	probeSink   = "sink"   // LOCAL SIZE: counts and acknowledges datagrams of this size
	probeStream = "stream" // PEER SIZE SEGMENTS DURATION PATIENCE: keeps a window under way; prints a Stream
)

const (
	ackLen      = 4 // length of an acknowledgement in bytes, as in TFTP
	streamAhead = 4 * streamAck
	streamAck   = 32 // number of datagrams for each acknowledgement
	glueLen     = 1 << 16
)

func probe(args []string) error {
	debug.SetGCPercent(-1)
	address, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return err
	}
	numbers := make([]int, 0, len(args))
	for _, a := range args[2:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			return fmt.Errorf("probe %s: %w", args[0], err)
		}
		numbers = append(numbers, n)
	}
	switch args[0] {
	case probeEcho:
		return echo(address)
	case probePing:
		return ping(address, numbers[0], numbers[1], time.Duration(numbers[2]))
	case probeSink:
		return sink(address, numbers[0])
	case probeStream:
		return stream(address, numbers[0], numbers[1], time.Duration(numbers[2]), time.Duration(numbers[3]))
	}
	return fmt.Errorf("unknown probe %q", args[0])
}

// socket opens a UDP socket. It is bound to the address if `bind` is set, and otherwise connected
// to the address, which is then the peer's.
func socket(address netip.AddrPort, bind bool) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a UDP socket: %w", err)
	}
	at := &unix.SockaddrInet4{Addr: address.Addr().As4(), Port: int(address.Port())}
	const buffer = 4 << 20
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
		return 0, fmt.Errorf("set a receive buffer of %d bytes: %w", buffer, err)
	}
	if bind {
		err = unix.Bind(fd, at)
	} else {
		err = unix.Connect(fd, at)
	}
	if err != nil {
		return 0, fmt.Errorf("give a UDP socket the address %s: %w", address, err)
	}
	return fd, nil
}

// patience sets how long a probe waits for an answer before the answer counts as lost.
func patience(fd int, d time.Duration) error {
	t := unix.NsecToTimeval(int64(d))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t); err != nil {
		return fmt.Errorf("set a time limit of %s for answers: %w", d, err)
	}
	return nil
}

func send(fd int, b []byte) error {
	_, _, code := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if code != 0 && code != unix.ECONNREFUSED { // if the other probe does not listen yet, the datagram is lost
		return fmt.Errorf("send %d bytes: %w", len(b), code)
	}
	return nil
}

// receive reads a datagram into b. ok is false if no datagram arrived in time.
func receive(fd int, b []byte) (n int, ok bool, err error) {
	for {
		r, _, code := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch code {
		case 0:
			return int(r), true, nil
		case unix.EINTR, unix.ECONNREFUSED:
		case unix.EAGAIN:
			return 0, false, nil
		default:
			return 0, false, fmt.Errorf("receive: %w", code)
		}
	}
}

// meet prints that the socket is open, and connects the socket to the first peer that sends a
// datagram, which it reads into b.
func meet(fd int, b []byte) (n int, err error) {
	fmt.Println("ready")
	n, from, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, fmt.Errorf("receive: %w", err)
	}
	return n, unix.Connect(fd, from)
}

func echo(local netip.AddrPort) error {
	fd, err := socket(local, true)
	if err != nil {
		return err
	}
	b := make([]byte, glueLen)
	_, err = meet(fd, b)
	for err == nil {
		if err = send(fd, b[:ackLen]); err == nil {
			_, _, err = receive(fd, b)
		}
	}
	return err
}

// Ping holds how long it took to send a block and receive its acknowledgement, over Count attempts.
type Ping struct {
	Count, Lost  int
	Min, Median  time.Duration
	P90, P99     time.Duration
	Max, Average time.Duration
}

func ping(peer netip.AddrPort, size, count int, answerWithin time.Duration) error {
	fd, err := socket(peer, false)
	if err != nil {
		return err
	}
	if err := patience(fd, answerWithin); err != nil {
		return err
	}
	b, answer := make([]byte, size), make([]byte, glueLen)
	times := make([]time.Duration, 0, count)
	for i := range count {
		binary.BigEndian.PutUint32(b, uint32(i))
		begin := time.Now()
		if err := send(fd, b); err != nil {
			return err
		}
		for { // the answer to an earlier datagram, which counts as lost, may still arrive
			n, ok, err := receive(fd, answer)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if n == ackLen && binary.BigEndian.Uint32(answer) == uint32(i) {
				times = append(times, time.Since(begin))
				break
			}
		}
	}
	if len(times) == 0 {
		return errors.New("no datagram was answered")
	}
	return json.NewEncoder(os.Stdout).Encode(newPing(times, count))
}

func newPing(times []time.Duration, count int) Ping {
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[min(int(q*float64(len(times))), len(times)-1)] }
	p := Ping{Count: count, Lost: count - len(times), Min: times[0], Median: at(0.5), P90: at(0.9), P99: at(0.99), Max: times[len(times)-1]}
	for _, t := range times {
		p.Average += t
	}
	p.Average /= time.Duration(len(times))
	return p
}

// sink counts datagrams of `size` bytes. After every streamAck datagrams, it sends their total
// number as an acknowledgement.
func sink(local netip.AddrPort, size int) error {
	fd, err := socket(local, true)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
		return fmt.Errorf("receive glued datagrams: %w", err)
	}
	b, answer := make([]byte, glueLen), make([]byte, ackLen)
	n, err := meet(fd, b)
	var got, acked uint32
	for err == nil {
		got += uint32((n + size - 1) / size)
		if got-acked >= streamAck {
			acked = got
			binary.BigEndian.PutUint32(answer, got)
			if err = send(fd, answer); err != nil {
				break
			}
		}
		n, _, err = receive(fd, b)
	}
	return err
}

// Stream is the throughput of one sender of datagrams that keeps a window under way.
type Stream struct {
	Datagrams uint64
	Bytes     uint64 // total length of the IP packets
	Duration  time.Duration
	Stalls    int // how many times no acknowledgement arrived in time
}

// stream keeps up to streamAhead datagrams under way, and sends `segments` datagrams in each system
// call.
func stream(peer netip.AddrPort, size, segments int, length, answerWithin time.Duration) error {
	fd, err := socket(peer, false)
	if err != nil {
		return err
	}
	if err := patience(fd, answerWithin); err != nil {
		return err
	}
	if segments > 1 {
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, size); err != nil {
			return fmt.Errorf("let the kernel cut datagrams: %w", err)
		}
	}
	b, answer := make([]byte, segments*size), make([]byte, glueLen)
	var s Stream
	var sent, acked uint32
	begin := time.Now()
	for s.Duration < length {
		for sent-acked+uint32(segments) <= streamAhead {
			if err := send(fd, b); err != nil {
				return err
			}
			sent += uint32(segments)
		}
		n, ok, err := receive(fd, answer)
		if err != nil {
			return err
		}
		if ok && n == ackLen {
			s.Datagrams += uint64(binary.BigEndian.Uint32(answer) - acked)
			acked = binary.BigEndian.Uint32(answer)
		} else {
			s.Stalls++
			sent = acked // the datagrams under way are lost, or so late that they count as lost
		}
		s.Duration = time.Since(begin)
	}
	s.Bytes = s.Datagrams * uint64(size+ipv4Header+udpHeader)
	return json.NewEncoder(os.Stdout).Encode(s)
}
