//go:build linux

// Command init is the only program of a machine that has started it from an initrd. It prints the
// kernel's command line and whether the kernel is locked down, and switches the machine off.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	show("proc", "/proc", "/proc/cmdline")
	show("securityfs", "/security", "/security/lockdown")
	fmt.Println("switching off:", syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
}

// show mounts a file system of the given kind at dir, and prints the file `name` in it.
func show(kind, dir, name string) {
	_ = os.Mkdir(dir, 0o755)
	if err := syscall.Mount(kind, dir, kind, 0, ""); err != nil {
		fmt.Printf("mount %s: %v\n", dir, err)
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s", name, b)
}
