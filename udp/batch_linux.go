//go:build linux && !haul_portable

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxBatch is how many messages one system call moves at most. More than 64 messages would save
// little more, and 64 buffers of 64 KiB already take 4 MiB.
const maxBatch = 64

// controlSize bounds the control data of one message, in bytes. It has room for an IPv4 packet info
// (32 bytes), an IPv6 packet info (40) and a segment size (24).
const controlSize = 96

// A header is the kernel's struct mmsghdr.
type header struct {
	unix.Msghdr
	length uint32 // bytes moved
}

// A batch is the memory for recvmmsg and sendmmsg, with one element of each array for each message.
// It grows to the largest number of messages that are ever moved at once, and its memory is reused.
type batch struct {
	headers  []header
	buffers  []unix.Iovec
	names    []unix.RawSockaddrInet6 // large enough for IPv4 as well
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

// reset sets the room for the address and the control data of message i. The kernel replaces these
// sizes with the sizes that it uses.
func (b *batch) reset(i int) {
	b.headers[i].Namelen = unix.SizeofSockaddrInet6
	b.headers[i].SetControllen(controlSize)
}

// setData points message i at data, to send it or to fill it.
func (b *batch) setData(i int, data []byte) {
	b.buffers[i].Base = unsafe.SliceData(data)
	b.buffers[i].SetLen(len(data))
}

// receiveBatch receives up to len(headers) messages without waiting and returns their number.
//
// It bypasses the work of Go's scheduler around a system call, because this call does not wait.
// That saves a tenth of the CPU time of a packet (docs/decisions/001). The kernel follows the
// pointers inside headers. They have pointer types, so the memory that they point to stays alive as
// long as headers.
func receiveBatch(fd uintptr, headers []header) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// sendBatch sends up to len(headers) messages without waiting, in the same way, and returns their
// number.
func sendBatch(fd uintptr, headers []header) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
