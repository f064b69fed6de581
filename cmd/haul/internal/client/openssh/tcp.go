package openssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/haul-project/haul/internal/sshconn"
)

// dialTCP connects directly to the host. It also returns how long connecting took.
func dialTCP(ctx context.Context, dest *Destination, limit time.Duration) (net.Conn, time.Duration, error) {
	var dialer net.Dialer
	if dest.NoTCPKeepAlive {
		dialer.KeepAlive = -1
	}
	network := dest.AddressFamily
	if network == "" {
		network = "tcp"
	}
	local, err := dest.local(ctx, network)
	if err != nil {
		return nil, 0, err
	}
	if local != nil {
		dialer.LocalAddr = local
	}
	trip := sshconn.TimeConnect(&dialer)
	for attempt := 1; ; attempt++ {
		conn, err := dialOnce(ctx, &dialer, network, dest.address(), limit)
		if err == nil || attempt >= dest.ConnectionAttempts || ctx.Err() != nil {
			return conn, trip(), err
		}
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
			return nil, 0, err
		}
	}
}

func dialOnce(ctx context.Context, dialer *net.Dialer, network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, overdue(limit))
	defer cancel()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return conn, err
}

// local returns the address to connect from, or nil if any address may be used.
func (d *Destination) local(ctx context.Context, network string) (*net.TCPAddr, error) {
	fits := func(ip net.IP) bool {
		return network == "tcp" || (ip.To4() != nil) == (network == "tcp4")
	}
	if d.BindAddress != "" {
		ips, err := net.DefaultResolver.LookupIPAddr(ctx, d.BindAddress)
		if err != nil {
			return nil, fmt.Errorf("bind to %s: %w", d.BindAddress, err)
		}
		for _, ip := range ips {
			if fits(ip.IP) {
				return &net.TCPAddr{IP: ip.IP, Zone: ip.Zone}, nil
			}
		}
		return nil, configErrorf("bindaddress: %s is of another family", d.BindAddress)
	}
	if d.BindInterface == "" {
		return nil, nil
	}
	i, err := net.InterfaceByName(d.BindInterface)
	if err != nil {
		return nil, configErrorf("bindinterface: %s: %w", d.BindInterface, err)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("bind to %s: %w", d.BindInterface, err)
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && fits(n.IP) && (n.IP.IsLoopback() || n.IP.IsGlobalUnicast()) {
			return &net.TCPAddr{IP: n.IP}, nil
		}
	}
	return nil, &ConfigError{Err: errors.New("bindinterface: " + d.BindInterface + " has no address that fits")}
}

func overdue(limit time.Duration) error {
	return fmt.Errorf("not done within %v: %w", limit.Round(time.Millisecond), os.ErrDeadlineExceeded)
}
