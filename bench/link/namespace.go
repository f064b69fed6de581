package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// namePrefix begins the names of namespaces, which are haul-bench-PID-START-N-a and -b: the PID of
// the process that made them, its start time in the kernel's clock ticks, and how many links it had
// made before. A PID may be used again, but not with the same start time.
const namePrefix = "haul-bench-"

// namespaces is the directory in which ip(8) keeps named namespaces.
const namespaces = "/run/netns"

func namespacePath(name string) string { return filepath.Join(namespaces, name) }

var made atomic.Uint64 // number of links that this process has made

// newNames returns the names for the namespaces of a new link.
func newNames() ([2]string, error) {
	pid := os.Getpid()
	start, err := startOf(pid)
	if err != nil {
		return [2]string{}, fmt.Errorf("find out when this process started: %w", err)
	}
	base := fmt.Sprintf("%s%d-%s-%d-", namePrefix, pid, start, made.Add(1))
	return [2]string{base + A.String(), base + B.String()}, nil
}

// startOf returns when a process started, in the kernel's ticks: field 22 of proc_pid_stat(5).
func startOf(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is a name in parentheses, which may contain any character.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const start = 22 - 3
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields)+2)
	}
	return fields[start], nil
}

// abandoned reports whether a namespace with this name was made by this package, in a process that
// has exited.
func abandoned(name string) bool {
	rest, ours := strings.CutPrefix(name, namePrefix)
	parts := strings.Split(rest, "-")
	if !ours || len(parts) != 4 {
		return false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	start, err := startOf(pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	return err == nil && start != parts[1]
}

// Clean removes leftovers of killed runs: namespaces that this package made in a process that no
// longer exists, and the programs in them. It does not touch the namespaces of running processes.
// [Up] calls it.
func Clean() error {
	entries, err := os.ReadDir(namespaces)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for leftover namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if abandoned(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return removeAll(names, nil)
}

// removeAll removes namespaces. It returns err, joined with the errors that occurred.
func removeAll(names []string, err error) error {
	for _, name := range names {
		err = errors.Join(err, remove(name))
	}
	return err
}

// remove ends the programs in a namespace, and removes the namespace. A missing namespace is not an
// error.
func remove(name string) error {
	path := namespacePath(name)
	if err := endPrograms(path); err != nil {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	if err := ip("netns", "delete", name); err != nil {
		if _, gone := os.Stat(path); errors.Is(gone, os.ErrNotExist) {
			return nil // another process has removed it: the emulator, or the next run
		}
		return err
	}
	return nil
}

// endPrograms kills all programs in the namespace at path, because servers that daemonize outlive
// the process that started them. No other program has a reason to be in the namespace.
func endPrograms(path string) error {
	const wait = 10 * time.Millisecond
	const rounds = int(endTimeout / wait) // several rounds, because a program may start another one meanwhile
	ns, err := hold(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	for range rounds {
		pids, err := programsIn(ns)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // an error means that it has already ended
		}
		time.Sleep(wait) // a killed process needs some processor time before it is gone
	}
	return errors.New("programs in it do not end; ip netns pids NAME lists them")
}

// A heldNamespace is a namespace that exists until it is closed, even if another process removes
// its name. Otherwise a new namespace could get the same number, and a process that looks for the
// programs of the old namespace would find the programs of the new one.
type heldNamespace struct {
	*os.File
	is os.FileInfo
}

func hold(path string) (heldNamespace, error) {
	f, err := os.Open(path)
	if err != nil {
		return heldNamespace{}, err
	}
	is, err := f.Stat()
	if err != nil {
		return heldNamespace{}, errors.Join(err, f.Close())
	}
	return heldNamespace{f, is}, nil
}

// programsIn returns the processes in a namespace, except this one.
func programsIn(ns heldNamespace) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && os.SameFile(ns.is, theirs) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// ipTimeout is the time limit of a call of ip(8), which usually takes milliseconds.
const ipTimeout = 10 * time.Second

func ip(args ...string) error { return ipInput("", args...) }

// ipInput runs ip(8), or tc(8) if the first argument says so.
func ipInput(input string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), ipTimeout)
	defer cancel()
	name := "ip"
	if args[0] == "tc" {
		name, args = "tc", args[1:]
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	// Ctrl-C must not reach ip: this program handles it, and cleans up with ip.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s %s: %w; it comes with iproute2, which links need", name, strings.Join(args, " "), err)
	case err != nil:
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Addresses of the two sides. All links use the same addresses, because their namespaces are not
// connected to anything else.
const (
	prefix4 = "10.209.0."
	prefix6 = "fd68:6175:6c::"
)

// deviceQueue is how many packets may wait for the emulator to read them.
const deviceQueue = 5000

// configure assigns the addresses to the device in a side's namespace, and brings the device up.
func configure(name string, side Side) error {
	settings := []string{
		"link set dev lo up",
		fmt.Sprintf("link set dev %s mtu 1500 txqueuelen %d", deviceName, deviceQueue),
		// The device gets no link-local address, because the kernel would use one to look for
		// routers.
		fmt.Sprintf("link set dev %s addrgenmode none", deviceName),
		fmt.Sprintf("addr add %s%d/24 dev %s", prefix4, side+1, deviceName),
		fmt.Sprintf("-6 addr add %s%d/64 dev %s nodad", prefix6, side+1, deviceName),
		fmt.Sprintf("link set dev %s up", deviceName),
	}
	for _, line := range settings {
		if err := ip(append([]string{"-n", name}, strings.Fields(line)...)...); err != nil && !strings.HasPrefix(line, "-6") {
			return err
		} else if err != nil && ipv6Enabled() {
			return err
		}
	}
	return nil
}

// ipv6Enabled reports whether the kernel has IPv6.
func ipv6Enabled() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}
