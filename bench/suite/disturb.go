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

// The disturbances and how much of each.
const (
	slowClients = 1000
	slowPause   = time.Second // between a block and its acknowledgement
	slowSize    = 1 * mB

	floodRate    = 20_000               // requests a second
	floodTick    = time.Millisecond     // between two bursts
	floodCatchUp = 5 * floodRate / 1000 // most requests in a burst, after a pause
	floodSockets = 64

	windowsRate   = 2.0 // downloads begun each second
	windowsSize   = 64 * mB
	windowsAtOnce = 4
)

// longer is a number of transfers, or a time, that no measurement lives to see
// the end of.
const (
	longerTransfers = 10_000
	longerTime      = 5 * time.Minute
)

// windowed downloads large files in windows.
func windowed(ctx context.Context, st *stage) (func() extent, error) {
	l := record.Load{
		Concurrency: windowsAtOnce, Transfers: longerTransfers, Size: windowsSize,
		BlockSize: 1468, Window: 64, Rate: windowsRate,
	}
	return st.background(ctx, l)
}

// background makes a load that goes on until it is stopped.
func (st *stage) background(ctx context.Context, l record.Load) (func() extent, error) {
	if err := st.makeFiles(ctx, record.Load{Size: l.Size, Transfers: l.Concurrency}); err != nil {
		return nil, err
	}
	args := append(generatorArgs(st.server.Addr().String(), l),
		"--names", fmt.Sprint(l.Concurrency), "--duration", longerTime.String())
	cmd := st.command(ctx, st.suite.Haul, args...)
	// Interrupted, it tells what it has done.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	return func() extent {
		_ = cmd.Cancel() // it may have ended, and then says why
		_ = cmd.Wait()   // interrupted is how it should end
		var g generated
		if err := json.Unmarshal(bytes.TrimSpace(out.b), &g); err != nil {
			return extent{warning: fmt.Sprintf("what went on beside has no result: %v: %s", err, bytes.TrimSpace(said.b))}
		}
		e := extent{events: g.DataPackets}
		if g.Failed > 0 {
			e.warning = fmt.Sprintf("beside, %.0f of %.0f transfers failed: %v", g.Failed, g.Transfers, g.Errors)
		}
		return e
	}, nil
}

// readRequest is an RRQ in octet mode, without options.
func readRequest(name string) []byte { return []byte("\x00\x01" + name + "\x00octet\x00") }

// TFTP's operation codes that slow peers use, RFC 1350 §5.
const (
	opData = 3
	opACK  = 4
)

// flood asks for a file that is not there, at a steady rate and without
// reading the answers.
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
				// Refused and full are what a flood expects.
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

// open opens sockets of their own ports. They are not connected, because many
// servers answer from another port than they were asked on.
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

// slow is many clients who take a block a second each.
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
	for _, c := range conns {
		wg.Go(func() {
			n := slowDownload(ctx, c, st.server.Addr())
			acked.Add(n)
			if n > 0 {
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

// slowDownload takes a block every slowPause until ctx ends, and returns how
// many. It acknowledges each once, as repeating would double the packets.
func slowDownload(ctx context.Context, c *net.UDPConn, server netip.AddrPort) (taken int64) {
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	if _, err := c.WriteToUDPAddrPort(readRequest(fileName(slowSize, "0")), server); err != nil {
		return 0
	}
	packet := make([]byte, 4+512)
	for {
		n, from, err := c.ReadFromUDPAddrPort(packet)
		if err != nil {
			return taken
		}
		block := binary.BigEndian.Uint16(packet[2:])
		if n < 4 || binary.BigEndian.Uint16(packet) != opData || int64(block) != taken+1 {
			continue
		}
		select {
		case <-ctx.Done():
			return taken
		case <-time.After(slowPause):
		}
		if _, err := c.WriteToUDPAddrPort([]byte{0, opACK, packet[2], packet[3]}, from); err != nil {
			return taken
		}
		taken++
	}
}
