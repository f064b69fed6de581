package tftpclient

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// answerNames answers a DNS query over a stream with n IPv4 addresses.
func answerNames(conn net.Conn, n int) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		end := 12 // end of the question
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		end += 5
		if query[end-3] != 1 { // type A
			n = 0
		}
		b := append([]byte{0, 0, query[0], query[1], 0x81, 0x80, 0, 1, byte(n >> 8), byte(n), 0, 0, 0, 0}, query[12:end]...)
		for i := range n {
			b = append(b, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, byte(i>>8), byte(i))
		}
		binary.BigEndian.PutUint16(b, uint16(len(b)-2))
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}

// A name server cannot keep a client busy for hours with unresponsive addresses.
func TestHostWithManyAddresses(t *testing.T) {
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answerNames(there, 1000)
		return here, nil
	}}
	defer func() { net.DefaultResolver = usual }()
	ips, err := lookUpFew(t.Context(), "many.example.")
	if err != nil || len(ips) != maxHostAddrs {
		t.Errorf("%d addresses, %v", len(ips), err)
	}
}
