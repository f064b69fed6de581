package sshconn

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// LargestSend returns the size that WidenSend sets, or 0. It asks the kernel once, at the first
// connection or before: see Server.Prepare of package sftp.
var LargestSend = sync.OnceValue(func() int {
	return sendBufferFor(lastNumber("/proc/sys/net/core/wmem_max"), lastNumber("/proc/sys/net/ipv4/tcp_wmem"))
})

// lastNumber returns the last number in a file of the kernel, or 0.
func lastNumber(name string) int {
	b, err := os.ReadFile(name)
	fields := strings.Fields(string(b))
	if err != nil || len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}
