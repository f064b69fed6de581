//go:build linux

package interop

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"
	"time"
)

// U-Boot fetches files with commands on its console, also in windows, and computes their sums in
// memory.
func TestFirmwareUBoot(t *testing.T) {
	t.Parallel()
	fetches := []struct {
		options
		size int
	}{
		{options{}, 0},
		{options{}, 1<<20 + 1},
		{options{block: 1468}, 4<<20 + 777},
		{options{block: 1468, window: 16}, 1468 * 16 * 100}, // ends with an empty block
		{options{block: 1428, window: 64}, 4<<20 + 778},
		{options{block: 512, window: 16}, 65536*512 + 1}, // block numbers wrap around
	}
	if testing.Short() {
		fetches = fetches[:len(fetches)-1]
	}
	files := map[string][]byte{}
	for _, f := range fetches {
		files[fmt.Sprint("f", f.size)] = content(f.size)
	}
	d := serveCable(t, fill(t, t.TempDir(), files))
	m := powerOn(t, "e1000", "-bios", needFile(t, "u-boot-qemu", "/usr/lib/u-boot/qemu-x86/u-boot.rom"))
	m.stopAutoboot(t)
	m.uboot(t, "setenv ipaddr "+guest)
	m.uboot(t, "setenv serverip "+host)
	m.uboot(t, "setenv netmask "+netmask)
	var want []string
	for _, f := range fetches {
		name := fmt.Sprint("f", f.size)
		m.uboot(t, fmt.Sprint("setenv tftpblocksize ", cmp.Or(f.block, 512)))
		m.uboot(t, fmt.Sprint("setenv tftpwindowsize ", cmp.Or(f.window, 1)))
		got, right := m.uboot(t, "tftpboot 0x4000000 "+name), "\ndone\r"
		if f.size > 0 { // an empty file has no sum
			got, right = m.uboot(t, "crc32 0x4000000 ${filesize}"), fmt.Sprintf("==> %08x\r", crc32.ChecksumIEEE(files[name]))
		}
		if !strings.Contains(got, right) {
			t.Errorf("%v, %d bytes: U-Boot says %q, want %q", f.options, f.size, got, right)
		}
		line := fmt.Sprint("done ", name, " octet blksize=", cmp.Or(f.block, 512))
		if f.window > 1 {
			line += fmt.Sprint(" windowsize=", f.window)
		}
		if f.size > 0 { // some clients take the size 0 for an error
			line += fmt.Sprint(" tsize=", f.size)
		}
		want = append(want, line+" timeout=5")
	}
	wantLogged(t, logged(t, d), want...)
}

// uboot makes U-Boot execute a command and returns its output.
func (m *machine) uboot(t *testing.T, command string) string {
	t.Helper()
	m.enter(t, command)
	return m.await(t, `(?s)(.*)\n=> `)[1]
}

// stopAutoboot makes U-Boot wait for commands. It waits for a key for two seconds, in which this
// machine may be busy: so keys are sent from the beginning.
func (m *machine) stopAutoboot(t *testing.T) {
	t.Helper()
	prompt := make(chan struct{})
	var pressing sync.WaitGroup
	defer pressing.Wait()
	defer close(prompt)
	pressing.Go(func() {
		for {
			if _, err := m.console.Write([]byte{' '}); err != nil {
				return // await reports it
			}
			select {
			case <-prompt:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	m.await(t, `Hit any key to stop autoboot`)
	m.await(t, `=> `)
}
