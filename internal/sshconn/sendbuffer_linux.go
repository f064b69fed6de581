package sshconn

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// LargestSend returns the size that WidenSend sets, or 0 if WidenSend should not set one. It reads the
// kernel's settings only once, at the first connection or earlier: see Server.Prepare of package
// sftp.
var LargestSend = sync.OnceValue(func() int {
	return sendBufferFor(lastNumber("/proc/sys/net/core/wmem_max"), lastNumber("/proc/sys/net/ipv4/tcp_wmem"))
})

// lastNumber returns the last number in a file of /proc/sys, or 0 if the file cannot be read.
func lastNumber(name string) int {
	b, err := os.ReadFile(name)
	fields := strings.Fields(string(b))
	if err != nil || len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}
