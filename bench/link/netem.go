package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// UpNetem makes a link as [Up] does, but uses the kernel's netem over a pair of virtual Ethernet
// devices. It fails if the kernel has no netem.
//
// As an emulator it has other properties. It treats a buffer that the kernel has not segmented
// yet as one packet, which is delayed and lost as a whole. A packet is lost before its turn at
// the rate, a reordered one is sent at once, and the cost of the path itself is added to the
// delay.
func UpNetem(ctx context.Context, p Profile) (*Link, error) {
	l, err := prepare(p)
	if err != nil {
		return nil, err
	}
	if err := l.startNetem(); err != nil {
		l.remove()
		return nil, errors.Join(fmt.Errorf("bring up link %s with netem: %w", p.Name, err), l.closed)
	}
	l.stop = context.AfterFunc(ctx, l.remove)
	return l, nil
}

func (l *Link) startNetem() error {
	err := ip("-n", l.names[A], "link", "add", deviceName, "type", "veth", "peer", "name", deviceName, "netns", l.names[B])
	if err != nil {
		return err
	}
	for side, name := range l.names {
		if err := configure(name, Side(side)); err != nil {
			return err
		}
		if err := ip(netem(name, &l.profile, Side(side))...); err != nil {
			return fmt.Errorf("%w; does this kernel have netem (CONFIG_NET_SCH_NETEM)? The suite's own emulator does without", err)
		}
	}
	return nil
}

// netem returns the tc(8) command that applies the profile to the packets that a side sends.
func netem(name string, p *Profile, side Side) []string {
	w := p.Ways[side]
	// netem's limit counts packets, including packets that are being delayed.
	limit := w.queue() / p.frame(fullPacket)
	if w.Rate > 0 {
		limit += int(w.Delay.Seconds() * float64(w.Rate) / 8 / float64(p.frame(fullPacket)))
	} else {
		limit = maxRecords
	}
	line := fmt.Sprintf("tc -n %s qdisc replace dev %s root netem limit %d delay %dns", name, deviceName, limit, w.Delay.Nanoseconds())
	if w.Reorder > 0 {
		line += fmt.Sprintf(" reorder %g%%", w.Reorder*100)
	}
	if w.Loss > 0 {
		line += fmt.Sprintf(" loss %g%%", w.Loss*100)
	}
	if w.Duplicate > 0 {
		line += fmt.Sprintf(" duplicate %g%%", w.Duplicate*100)
	}
	if w.Rate > 0 {
		// The 14 bytes of Ethernet's header are not given to netem, because it counts them as a
		// part of the packet.
		line += fmt.Sprintf(" rate %dbit %d", w.Rate, p.Overhead-ethernetHeader)
	}
	return strings.Fields(line)
}

const ethernetHeader = 14
