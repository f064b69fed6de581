package suite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// These constants set the amounts of the disturbances.
const (
	slowClients = 1000
	slowPause   = time.Second // time between the arrival of a block and its acknowledgement
	slowSize    = 1 * mB
	slowStagger = takesHold / (2 * slowClients) // time between the starts of two clients

	floodRate    = 20_000               // number of requests per second
	floodTick    = time.Millisecond     // time between two bursts of requests
	floodCatchUp = 5 * floodRate / 1000 // largest number of requests in a burst, such as one after a pause
	floodSockets = 64

	windowsRate   = 2.0 // downloads begun per second
	windowsSize   = 64 * mB
	windowsAtOnce = 4
)

// A background load with these numbers lasts longer than any measurement.
const (
	longerTransfers = 10_000
	longerTime      = 5 * time.Minute
)

// windowed is a disturbance that downloads large files in windows.
func windowed(ctx context.Context, st *stage) (func() extent, error) {
	l := record.Load{
		Concurrency: windowsAtOnce, Transfers: longerTransfers, Size: windowsSize,
		BlockSize: 1468, Window: 64, Rate: windowsRate,
	}
	return st.background(ctx, l)
}

// background begins a load that lasts until the returned function is called.
func (st *stage) background(ctx context.Context, l record.Load) (func() extent, error) {
	if err := st.makeFiles(ctx, record.Load{Size: l.Size, Transfers: l.Concurrency}); err != nil {
		return nil, err
	}
	args := append(generatorArgs(st.server.Addr().String(), l),
		"--names", fmt.Sprint(l.Concurrency), "--duration", longerTime.String())
	cmd := st.command(ctx, st.suite.Haul, args...)
	// On an interrupt, the generator stops and prints its figures.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	return func() extent {
		_ = cmd.Cancel() // an error means that the generator has already exited; then it has printed the reason
		_ = cmd.Wait()   // an error is normal, because the generator was interrupted
		var g generated
		if err := json.Unmarshal(bytes.TrimSpace(out.b), &g); err != nil {
			return extent{warning: fmt.Sprintf("the load beside has no result: %v: %s", err, bytes.TrimSpace(said.b))}
		}
		e := extent{events: g.DataPackets}
		if g.Failed > 0 {
			e.warning = fmt.Sprintf("beside, %.0f of %.0f transfers failed: %v", g.Failed, g.Transfers, g.Errors)
		}
		return e
	}, nil
}

// readRequest returns an RRQ in octet mode, without options.
func readRequest(name string) []byte { return []byte("\x00\x01" + name + "\x00octet\x00") }

// The TFTP operation codes that slow clients use (RFC 1350 §5).
const (
	opData = 3
	opACK  = 4
)

// flood is a disturbance that requests a missing file at a steady rate, without reading the
// answers.
func flood(ctx context.Context, st *stage) (func() extent, error) {
	ctx, cancel := context.WithCancel(ctx)
	conns, err := open(floodSockets)
	if err != nil {
		cancel()
		return nil, err
	}
	var sent atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(floodTick)
		defer tick.Stop()
		began := time.Now()
		request := readRequest("missing")
		for ctx.Err() == nil {
			<-tick.C
			due := int64(time.Since(began).Seconds()*floodRate) - sent.Load()
			for range min(due, floodCatchUp) {
				// Errors about refused packets and full buffers are expected in a flood.
				_, _ = conns[sent.Add(1)%floodSockets].WriteToUDPAddrPort(request, st.server.Addr())
			}
		}
	})
	return func() extent {
		cancel()
		wg.Wait()
		closeAll(conns)
		return extent{events: float64(sent.Load())}
	}, nil
}

// open opens n UDP sockets, each with its own port. They are not connected, because many servers
// answer from another port.
func open(n int) ([]*net.UDPConn, error) {
	var conns []*net.UDPConn
	for range n {
		c, err := net.ListenUDP("udp4", nil)
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("open %d sockets for clients: %w", n, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func closeAll(conns []*net.UDPConn) {
	for _, c := range conns {
		c.Close()
	}
}

// slow is a disturbance by slowClients clients, of which each reads one block a second.
func slow(ctx context.Context, st *stage) (func() extent, error) {
	if err := st.makeFiles(ctx, record.Load{Size: slowSize, Transfers: 1}); err != nil {
		return nil, err
	}
	conns, err := open(slowClients)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var acked, served atomic.Int64
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			// If all clients started at once, their requests would overflow the server's socket.
			time.Sleep(time.Duration(i) * slowStagger)
			d := slowDownload{conn: c, server: st.server.Addr()}
			d.run(ctx)
			acked.Add(d.taken)
			if d.served {
				served.Add(1)
			}
		})
	}
	return func() extent {
		cancel()
		wg.Wait()
		closeAll(conns)
		e := extent{events: float64(acked.Load())}
		if n := served.Load(); n < slowClients {
			e.warning = fmt.Sprintf("only %d of %d slow clients were served", n, slowClients)
		}
		return e
	}, nil
}

// A slowDownload is a download that takes one block every slowPause. It acknowledges each block
// only once, because repeated ACKs would double the packets.
type slowDownload struct {
	conn   *net.UDPConn
	server netip.AddrPort
	served bool  // a block has arrived
	taken  int64 // number of blocks that were acknowledged
}

// run downloads until ctx ends.
func (d *slowDownload) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = d.conn.SetReadDeadline(time.Now()) })()
	packet := make([]byte, 4+512)
	for ctx.Err() == nil {
		if !d.served {
			// If the request cannot be sent, it is repeated like a lost one, so an error does not
			// matter.
			_, _ = d.conn.WriteToUDPAddrPort(readRequest(fileName(slowSize, "0")), d.server)
			_ = d.conn.SetReadDeadline(time.Now().Add(slowPause))
		}
		n, from, err := d.conn.ReadFromUDPAddrPort(packet)
		if err != nil || !d.expected(packet[:n]) {
			continue
		}
		if !d.served {
			d.served = true
			_ = d.conn.SetReadDeadline(time.Time{})
		}
		select {
		case <-ctx.Done():
		case <-time.After(slowPause):
			_, _ = d.conn.WriteToUDPAddrPort([]byte{0, opACK, packet[2], packet[3]}, from)
			d.taken++
		}
	}
}

// expected reports whether a packet is the DATA packet with the next block.
func (d *slowDownload) expected(packet []byte) bool {
	return len(packet) >= 4 && binary.BigEndian.Uint16(packet) == opData &&
		int64(binary.BigEndian.Uint16(packet[2:])) == d.taken+1
}
