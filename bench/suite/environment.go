package suite

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/bench/suite/record"
)

// environment returns a description of the machine and of the measured source tree. Fields whose
// value is unknown stay empty.
func environment(dir string) record.Environment {
	return record.Environment{
		Commit:     output("git", "describe", "--always", "--dirty"),
		Machine:    processor(),
		Cores:      runtime.NumCPU(),
		MemoryMB:   memoryMB(),
		Kernel:     output("uname", "-sr"),
		Go:         runtime.Version(),
		Congestion: word("/proc/sys/net/ipv4/tcp_congestion_control"),
		Storage:    fileSystem(dir),
	}
}

// processor returns the name of the processor in /proc/cpuinfo, or "" if there is no name.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo") // without the file, the name is empty
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func memoryMB() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram * uint64(info.Unit) / 1e6)
}

// fileSystem returns the name of the file system of a directory, if it is a common one.
func fileSystem(dir string) string {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return ""
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return fmt.Sprintf("%#x", fs.Type)
}

// word returns the content of a file that contains one word.
func word(path string) string {
	b, _ := os.ReadFile(path) // the result is empty if the kernel has no such file
	return strings.TrimSpace(string(b))
}

// output returns the output of a command, or "" if the command fails.
func output(name string, args ...string) string {
	b, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
