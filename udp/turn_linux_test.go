package udp

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTurn measures a TFTP server without its protocol: peers in lock-step send 4 bytes and
// wait for 516 bytes. Its CPU time per packet is used to compare both paths, and changes to how
// Read waits, because a busy machine affects that value least. The peers run in another process.
func BenchmarkTurn(b *testing.B) {
	for _, peers := range []int{1, 3, 100} {
		b.Run(fmt.Sprint("peers=", peers), func(b *testing.B) {
			server := listen(b, loopback4, Config{})
			startPeers(b, server.LocalAddr(), peers)
			answer(b, server)
		})
	}
}

// answer answers b.N packets.
func answer(b *testing.B, server *Conn) {
	block := make([]byte, 516)
	in := buffers(server.Limits().Messages)
	out := make([]Message, 0, len(in))
	warm := 0
	turn := func() {
		n, err := server.Read(in, time.Now().Add(time.Second))
		if err != nil {
			b.Fatal(err)
		}
		out = out[:0]
		for i := range in[:n] {
			out = append(out, Message{Peer: in[i].Peer, Data: block})
		}
		if _, err := server.Write(out); err != nil {
			b.Fatal(err)
		}
		warm += n
	}
	for warm < 1000 {
		turn()
	}
	before := cpu()
	left := 0
	for b.Loop() {
		for left == 0 {
			turn()
			left = len(out)
		}
		left--
	}
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const peersEnv = "UDP_TEST_PEERS" // "count address": the process runs only peers

// startPeers runs peers in another process until the benchmark ends.
func startPeers(b *testing.B, server netip.AddrPort, count int) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint(peersEnv, "=", count, " ", server))
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { alive.Close(); cmd.Wait() })
}

// A process that was started to run peers does not run the tests.
func init() {
	if os.Getenv(peersEnv) != "" {
		runPeers()
		os.Exit(0)
	}
}

// runPeers runs peers until the standard input ends.
func runPeers() {
	var count int
	var address string
	_, err := fmt.Sscan(os.Getenv(peersEnv), &count, &address)
	check(err)
	server := netip.MustParseAddrPort(address)
	for range min(count, peerThreads) {
		go playPeers(server, (count+peerThreads-1)/peerThreads)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// peerThreads is how many threads run the peers. With up to that many peers, each peer has a
// thread, as if it were a machine. With a hundred threads, the benchmark would measure the
// scheduler.
const peerThreads = 3

// playPeers runs a few peers on one thread. Each peer answers a block with 4 bytes, and repeats
// these if no block arrives.
func playPeers(server netip.AddrPort, count int) {
	poll, err := unix.EpollCreate1(0)
	check(err)
	ack, block := make([]byte, 4), make([]byte, 600)
	var peers []int
	for range count {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		check(err)
		check(unix.Connect(fd, &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}))
		check(unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
		peers = append(peers, fd)
	}
	events := make([]unix.EpollEvent, count)
	for silent := true; ; silent = false {
		n := 0
		if !silent {
			n, err = unix.EpollWait(poll, events, 100)
			if err == unix.EINTR {
				continue
			}
			check(err)
		}
		for _, e := range events[:n] {
			_, _ = unix.Read(int(e.Fd), block)
			_, _ = unix.Write(int(e.Fd), ack)
		}
		if n == 0 {
			for _, fd := range peers {
				_, _ = unix.Write(fd, ack)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
