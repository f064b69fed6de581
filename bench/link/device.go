package link

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// deviceName is the name of the TUN device in each of the two namespaces.
const deviceName = "haul0"

// A device is a TUN device in a namespace: reading returns the packets that the namespace sends,
// and the namespace receives the packets that are written.
type device struct {
	fd     int
	counts *os.File // the namespace's /proc/net/dev
}

// These constants are from include/uapi/linux/if_tun.h. Package unix lacks them.
const (
	tunCheckSum = 0x01
	tunTCP4     = 0x02
	tunTCP6     = 0x04
	tunECN      = 0x08
	tunUDP4     = 0x20
	tunUDP6     = 0x40
)

// openDevice makes a device in the namespace at path. The device exists until it is closed.
func openDevice(path string) (*device, error) {
	type result struct {
		device *device
		err    error
	}
	made := make(chan result, 1)
	go func() {
		// From here on the thread is in another namespace. So it is never unlocked, and exits
		// together with this goroutine.
		runtime.LockOSThread()
		d, err := openDeviceHere(path)
		made <- result{d, err}
	}()
	r := <-made
	return r.device, r.err
}

func openDeviceHere(path string) (*device, error) {
	if err := enter(path); err != nil {
		return nil, err
	}
	const tun = "/dev/net/tun"
	fd, err := unix.Open(tun, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w; a link needs root and the kernel's tun module", tun, err)
	}
	d := &device{fd: fd}
	if err := d.attach(); err != nil {
		_ = unix.Close(fd) // the device is not used, so an error does not matter
		return nil, err
	}
	return d, nil
}

// attach makes d a new TUN device in the calling thread's namespace.
func (d *device) attach() error {
	request, err := unix.NewIfreq(deviceName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(d.fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("make device %s: %w", deviceName, err)
	}
	// Before Linux 6.2 there is no segmentation offload for UDP, so datagrams arrive one by one.
	const tcp = tunCheckSum | tunTCP4 | tunTCP6
	for _, offloads := range []int{tcp | tunECN | tunUDP4 | tunUDP6, tcp | tunECN, tcp, tunCheckSum} {
		if err = unix.IoctlSetInt(d.fd, unix.TUNSETOFFLOAD, offloads); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("set offloads of device %s: %w", deviceName, err)
	}
	if d.counts, err = os.Open("/proc/thread-self/net/dev"); err != nil {
		return fmt.Errorf("open a namespace's counters: %w", err)
	}
	return nil
}

// enter moves the calling thread to the network namespace at path.
func enter(path string) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", path, err)
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", path, err)
	}
	return nil
}

// drops returns how many packets the kernel could not queue for the device's reader.
func (d *device) drops() uint64 {
	b := make([]byte, 4096) // the file has two or three lines of some 120 bytes
	n, _ := d.counts.ReadAt(b, 0)
	for line := range strings.Lines(string(b[:n])) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != deviceName {
			continue
		}
		// The first eight columns are about received packets. The columns for sent bytes, packets,
		// errors and drops follow.
		var columns [12]uint64
		var at []any
		for i := range columns {
			at = append(at, &columns[i])
		}
		if _, err := fmt.Sscan(rest, at...); err == nil {
			return columns[11]
		}
	}
	return 0
}
