package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A server is a program to measure.
type server struct {
	name    string
	version string
	env     []string
	args    func(dir string, addr netip.AddrPort) []string
}

// haulServer is haul with further flags, under a name of its own.
func haulServer(name, binary string, flags ...string) server {
	return server{
		name:    name,
		version: output(binary, "version"),
		args: func(dir string, addr netip.AddrPort) []string {
			return append([]string{binary, "serve", dir, "--tftp", addr.String(), "--upload", "overwrite"}, flags...)
		},
	}
}

// hpaServer is tftpd-hpa, installed or unpacked from its package, in which
// case its libraries lie beside it.
func hpaServer(binary string) server {
	usr := filepath.Dir(filepath.Dir(binary))
	libs, _ := filepath.Glob(filepath.Join(usr, "lib", "*-linux-*")) // the pattern is well formed
	s := server{
		name: "tftpd-hpa",
		env:  append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(libs, ":")),
		args: func(dir string, addr netip.AddrPort) []string {
			return []string{binary, "--foreground", "--address", addr.String(), "--secure", "--create", "--permissive", "--user", "root", dir}
		},
	}
	cmd := exec.Command(binary, "--version")
	cmd.Env = s.env
	out, _ := cmd.Output() // the version is for information
	s.version, _, _ = strings.Cut(strings.TrimSpace(string(out)), ",")
	return s
}

// A process is a server that runs.
type process struct {
	cmd   *exec.Cmd
	addr  netip.AddrPort
	meter meter
}

// start runs a server on a free port of loopback.
func (s server) start(dir string) (*process, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	args := s.args(dir, addr)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = s.env
	m, err := newMeter()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, addr: addr, meter: m}
	if err := m.attach(cmd.Process.Pid); err != nil {
		p.stop()
		return nil, err
	}
	time.Sleep(300 * time.Millisecond) // both bind at once; the warm-up asks again if not
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_, _ = p.cmd.Process.Wait()
	p.meter.close()
}

// cpu returns the CPU time spent so far.
func (p *process) cpu() time.Duration { return p.meter.read() }

// settledCPU returns the CPU time spent since before, once children that are
// still ending have been counted.
func (p *process) settledCPU(before time.Duration) (time.Duration, error) {
	time.Sleep(100 * time.Millisecond)
	spent := p.cpu() - before
	if spent <= 0 {
		return 0, errors.New("the server's CPU time cannot be read")
	}
	return spent, nil
}

func freePort() (netip.AddrPort, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort(), nil
}

// A meter reads the CPU time of a process and all that come from it. in.tftpd
// forks for each transfer and does not wait for the children, so a process's
// own account leaves most of it out: only a control group has it all.
type meter interface {
	name() string
	attach(pid int) error
	read() time.Duration
	close()
}

// newMeter returns a meter by control group, of version 2 or 1.
func newMeter() (meter, error) {
	group := fmt.Sprintf("haul-bench-%d-%d", os.Getpid(), time.Now().UnixNano())
	for _, g := range []groupMeter{
		{base: "/sys/fs/cgroup", file: "cpu.stat"},
		{base: "/sys/fs/cgroup/unified", file: "cpu.stat"},
		{base: "/sys/fs/cgroup/cpuacct", file: "cpuacct.usage"},
	} {
		g.dir = filepath.Join(g.base, group)
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(g.dir, g.file)); err == nil {
			return g, nil
		}
		_ = os.Remove(g.dir)
	}
	return nil, errors.New("no control group can be made to count CPU time: run as root")
}

type groupMeter struct{ base, dir, file string }

func (g groupMeter) name() string { return "cgroup " + g.file }

func (g groupMeter) attach(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

func (g groupMeter) read() time.Duration {
	b, err := os.ReadFile(filepath.Join(g.dir, g.file))
	if err != nil {
		return 0
	}
	text := string(b)
	unit := time.Nanosecond
	if g.file == "cpu.stat" { // "usage_usec N" is its first line
		text = strings.TrimPrefix(text, "usage_usec ")
		unit = time.Microsecond
	}
	line, _, _ := strings.Cut(text, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * unit
}

func (g groupMeter) close() {
	for range 20 { // until its last process has gone
		if os.Remove(g.dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
