package link

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An emulator moves packets between two devices, with one thread for both directions. It makes raw
// system calls. With an ordinary system call, Go's runtime would wake a second thread to watch each
// call that waits, which costs more than handling the packets.
type emulator struct {
	devices [2]*device
	ways    [2]*way
	started time.Time     // time 0 of the emulator's clock: see now
	since   time.Time     // when the statistics begin
	before  time.Duration // processor time that was used before the statistics began
	dropped [2]uint64     // packets that each device dropped before the statistics began
	// lead is how long a packet takes through the emulator if the thread has to be woken, in
	// nanoseconds, without the profile's delay.
	lead    int64
	early   int64 // how late the kernel wakes the thread, in ns; wake-ups are requested that much earlier
	late    histogram
	room    [prefixLen + maxHeaders]byte
	control int // standard input, with commands; its end means that the owner has exited
	line    []byte
}

const (
	maxEarly = 10 * time.Microsecond // upper limit of early, and so of the time of busy waiting
	// turn is how many packets of one direction are read, and how many of its pieces are handed
	// over, before the other direction has its turn.
	turn    = 64
	maxLine = 256 // longest command, in bytes

	maxGarbage = 64 << 20 // size of the Go heap above which garbage is collected, in bytes
)

// emulate is the main function of the emulator's process. args are the profile as JSON, and the
// paths and names of two namespaces.
func emulate(args []string) error {
	// Ctrl-C reaches all programs of a terminal. The owner decides how to react. The emulator
	// carries packets until the owner has exited.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	// Handling packets allocates no memory; only commands do. Collect the garbage only when there
	// is much of it, and not in the middle of a measurement.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(maxGarbage)
	var p Profile
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return fmt.Errorf("read the profile: %w", err)
	}
	e := &emulator{started: time.Now(), control: 0}
	for side, name := range args[1:3] {
		d, err := openDevice(namespacePath(name))
		if err != nil {
			return err
		}
		memory, err := unix.Mmap(-1, 0, arenaSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("take %d bytes for packets: %w", arenaSize, err)
		}
		e.devices[side], e.ways[side] = d, newWay(&p, Side(side), memory)
	}
	e.prefer()
	fmt.Println("ready")
	err := e.run()
	if err == io.EOF {
		err = nil
	}
	// Either the owner has exited unexpectedly, or the devices could not be opened.
	return removeAll(args[1:3], err)
}

// prefer makes the thread punctual: its timers have no slack, and it runs before ordinary programs.
// That does not harm other programs, because each piece of its work is short and bounded. Errors
// are ignored: if one of the settings is not permitted, the statistics show the effect.
func (e *emulator) prefer() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

func (e *emulator) now() int64 { return int64(time.Since(e.started)) }

// run carries packets and executes commands until the control pipe is closed. Then it returns
// io.EOF.
func (e *emulator) run() error {
	fds := []unix.PollFd{
		{Fd: int32(e.devices[A].fd), Events: unix.POLLIN},
		{Fd: int32(e.devices[B].fd), Events: unix.POLLIN},
		{Fd: int32(e.control), Events: unix.POLLIN},
	}
	for {
		slept, err := e.wait(fds)
		if err != nil {
			return err
		}
		e.deliver(A)
		e.deliver(B)
		for side := range e.devices {
			if fds[side].Revents != 0 {
				if err := e.collect(Side(side), slept); err != nil {
					return err
				}
			}
		}
		if fds[2].Revents != 0 {
			if err := e.command(); err != nil {
				return err
			}
		}
	}
}

// wait returns when a packet has arrived from a device, or when a packet is due to be handed over.
// It reports whether the thread slept until an arriving packet woke it.
func (e *emulator) wait(fds []unix.PollFd) (slept bool, err error) {
	const forever = 1 << 62
	wake := int64(forever)
	for _, w := range e.ways {
		if at, any := w.next(); any {
			wake = min(wake, at)
		}
	}
	begin := e.now()
	// The thread asks to be woken a little early. It is then on time in most cases, and polls
	// without sleeping for the few microseconds that remain.
	sleep := max(wake-begin-e.early, 0)
	var timeout *unix.Timespec
	if wake != forever {
		t := unix.NsecToTimespec(sleep)
		timeout = &t
	}
	n, _, code := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(timeout)), 0, 0, 0)
	if code == unix.EINTR {
		for i := range fds {
			fds[i].Revents = 0
		}
		return false, nil
	}
	if code != 0 {
		return false, fmt.Errorf("wait for packets: %w", code)
	}
	if sleep == 0 {
		return false, nil
	}
	woken := e.now()
	if n == 0 {
		late := woken - begin - sleep
		e.early = min(max(e.early+(late-e.early)/8, 0), int64(maxEarly))
		return false, nil
	}
	// A call takes a microsecond if a packet is already waiting, and longer if the thread sleeps.
	const awake = 2500 // ns
	return woken-begin > awake, nil
}

// collect reads the packets that a side has sent.
func (e *emulator) collect(side Side, slept bool) error {
	w, fd := e.ways[side], e.devices[side].fd
	var spare [1]byte
	for range turn {
		room, full := w.room(), false
		if room == nil {
			room, full = spare[:], true // drop the packet: if one byte is read, the kernel drops the rest
		}
		n, _, code := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
		switch {
		case code == unix.EAGAIN || code == unix.EINTR:
			return nil
		case full:
			w.stats.Overflow++
			continue
		case code == unix.EBADFD:
			return io.EOF // the device disappeared with its namespace
		case code != 0:
			return fmt.Errorf("read from side %s: %w", side, code)
		}
		w.stats.Reads++
		s, err := parse(room[:n])
		if err != nil {
			w.stats.Refused++
			continue
		}
		if multicast(room[prefixLen:n]) {
			continue
		}
		came := e.now()
		if slept {
			came -= e.lead
		}
		w.accept(came, s, int(n))
	}
	return nil
}

// deliver hands over the packets of a side that have arrived, if it is time to do so. It reads the
// clock only once for all of them, because at 1 Gb/s the next packet arrives while one is handed
// over.
func (e *emulator) deliver(side Side) {
	w, to := e.ways[side], e.devices[side.Other()].fd
	now := e.now()
	if at, any := w.next(); !any || at > now {
		return
	}
	for range turn {
		p, any := w.due(now)
		if !any {
			return
		}
		r := w.arena.at(p.record)
		head, payload := cut(w.arena.packet(r), &r.shape, p.first, p.count, e.room[:])
		e.late.add(e.now() - p.due)
		w.stats.Writes++
		if write(to, head, payload) {
			w.settle(p)
		} else {
			w.refuse(p)
		}
	}
}

// write hands a packet in two parts to a device.
func write(fd int, head, payload []byte) bool {
	if payload == nil {
		_, _, code := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&head[0])), uintptr(len(head)))
		return code == 0
	}
	parts := [2]unix.Iovec{{Base: &head[0]}, {Base: &payload[0]}}
	parts[0].SetLen(len(head))
	parts[1].SetLen(len(payload))
	_, _, code := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&parts[0])), 2)
	return code == 0
}

// command executes one line from the owner, and answers with a line.
func (e *emulator) command() error {
	var b [maxLine]byte
	n, _, code := unix.RawSyscall(unix.SYS_READ, uintptr(e.control), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if code == unix.EINTR || code == unix.EAGAIN {
		return nil
	}
	if code != 0 || n == 0 {
		return io.EOF
	}
	e.line = append(e.line, b[:n]...)
	line, rest, whole := bytes.Cut(e.line, []byte("\n"))
	if !whole {
		if len(e.line) > maxLine {
			return fmt.Errorf("a command of more than %d bytes", maxLine)
		}
		return nil
	}
	e.line = append([]byte(nil), rest...)
	return e.obey(string(line))
}

// The commands that the owner can send. Each command is a line.
const (
	askStats = "stats"
	setLead  = "lead " // a number of nanoseconds follows
	begin    = "begin" // until this command, no packet is lost, duplicated or reordered
)

func (e *emulator) obey(line string) error {
	number, lead := strings.CutPrefix(line, setLead)
	switch {
	case line == askStats:
		return json.NewEncoder(os.Stdout).Encode(e.report())
	case line == begin:
		e.begin()
	case lead:
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return fmt.Errorf("command %q: %w", line, err)
		}
		e.lead = n
	default:
		return fmt.Errorf("unknown command %q", line)
	}
	_, err := fmt.Println("done")
	return err
}

// begin enables the link's losses, duplicates and reordering, and resets the statistics. Packets
// before that served only to measure the lead.
func (e *emulator) begin() {
	e.late = histogram{}
	e.before, e.since = e.usage(), time.Now()
	for side, w := range e.ways {
		w.stats = WayStats{}
		w.begin(Side(side))
		e.dropped[side] = e.devices[side].drops()
	}
}

func (e *emulator) usage() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // the call fails only if an argument is wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report returns the current statistics.
func (e *emulator) report() Stats {
	s := Stats{
		Wall:       time.Since(e.since),
		CPU:        e.usage() - e.before,
		LateMedian: e.late.quantile(0.5),
		LateP99:    e.late.quantile(0.99),
		LateMax:    time.Duration(e.late.max),
	}
	for side := range s.Ways {
		s.Ways[side] = e.ways[side].stats
		s.Ways[side].DeviceDrops = e.devices[side].drops() - e.dropped[side]
	}
	return s
}
