//go:build linux && !haul_portable

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxBatch is the largest number of messages that one system call moves. A larger number would save
// little more, and 64 buffers of 64 KiB already take 4 MiB.
const maxBatch = 64

// controlSize is the room for the control data of one message, in bytes: an IPv4 packet info (32),
// an IPv6 packet info (40) and a segment size (24).
const controlSize = 96

// A header is the kernel's struct mmsghdr.
type header struct {
	unix.Msghdr
	length uint32 // number of bytes that were received or sent
}

// A batch is the memory that recvmmsg and sendmmsg need. Each array has an element for each
// message. A batch grows to the largest number of messages that are moved at once, and is reused.
type batch struct {
	headers  []header
	buffers  []unix.Iovec
	names    []unix.RawSockaddrInet6 // addresses of the peers; each element also has room for an IPv4 address
	controls [][controlSize]byte
}

// grow makes room for n messages.
func (b *batch) grow(n int) {
	if n <= len(b.headers) {
		return
	}
	b.headers = make([]header, n)
	b.buffers = make([]unix.Iovec, n)
	b.names = make([]unix.RawSockaddrInet6, n)
	b.controls = make([][controlSize]byte, n)
	for i := range n {
		h := &b.headers[i]
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Iov = &b.buffers[i]
		h.SetIovlen(1)
		h.Control = &b.controls[i][0]
		b.reset(i)
	}
}

// reset sets the sizes of the room for the address and the control data of message i. The kernel
// replaces them with the sizes of what it has written, so they must be set again before each
// receive.
func (b *batch) reset(i int) {
	b.headers[i].Namelen = unix.SizeofSockaddrInet6
	b.headers[i].SetControllen(controlSize)
}

// setData makes data the memory of message i: to send from, or to receive into.
func (b *batch) setData(i int, data []byte) {
	b.buffers[i].Base = unsafe.SliceData(data)
	b.buffers[i].SetLen(len(data))
}

// receiveBatch receives up to len(headers) messages without waiting, and returns their number.
//
// It makes a raw system call, which skips what Go's scheduler does around a normal one; that is
// safe because the call does not wait. This saves a tenth of the CPU time of a packet
// (docs/decisions/001). The kernel follows the pointers inside headers. They have pointer types, so
// the memory that they point to stays alive as long as headers.
func receiveBatch(fd uintptr, headers []header) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// sendBatch sends up to len(headers) messages without waiting, and returns their number. It makes a
// raw system call, like receiveBatch.
func sendBatch(fd uintptr, headers []header) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
