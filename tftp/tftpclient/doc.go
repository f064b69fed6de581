// Package tftpclient is a TFTP client (RFC 1350, 2347, 2348, 2349, 7440).
//
// A [Client] fetches and sends files; any number of its transfers may run at once:
//
//	var c tftpclient.Client
//	res, err := c.GetFile(ctx, "tftp://host/boot/kernel", "kernel")
//
// A [Pool] makes thousands of transfers at once over few sockets, and reports each by a
// callback.
//
// A Client runs each transfer as an exchange, with a goroutine and a socket of its own
// (exchange.go). A loop of a Pool (poolloop.go) runs all its transfers (pooltransfer.go);
// workers make the calls that may wait for a disk (pooljobs.go).
package tftpclient
