package sshconn

// sendBuffer is the size of the send buffer, in bytes: the kernel keeps data there until the peer has
// acknowledged it. By default Linux lets the buffer grow to some 4 MB, of which only half is
// available for data, and a path with a round trip of 100 ms then carries 39 MB/s. The size of the
// receive buffer is not set, because setting it would stop its growth.
const sendBuffer = 4 << 20

// WidenSend sets the size of a connection's send buffer, if the buffer would not become as large by
// itself. c is a connection, or wraps one and has its method SetWriteBuffer.
func WidenSend(c any) {
	t, ok := c.(interface{ SetWriteBuffer(int) error })
	if n := LargestSend(); ok && n > 0 {
		_ = t.SetWriteBuffer(n) // if this fails, the connection is only slower
	}
}

// sendBufferFor returns the size to request for a send buffer, or 0 if none should be requested. Linux
// lowers a requested size to net.core.wmem_max, which is the parameter `most`, then doubles it, and
// from then on does not change the size. Without a request, the buffer grows up to the last value of
// net.ipv4.tcp_wmem, which is the parameter `tuned`. On many machines wmem_max is far below that.
func sendBufferFor(most, tuned int) int {
	if n := min(sendBuffer, most); 2*n > tuned {
		return n
	}
	return 0
}
