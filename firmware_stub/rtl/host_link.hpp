// SPDX-License-Identifier: Apache-2.0
/* The other end of the UART's line: a TCP connection to the host. */
#ifndef HOST_LINK_HPP
#define HOST_LINK_HPP

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

class HostLink {
  public:
    /* Connects to "host:port"; throws std::runtime_error. */
    explicit HostLink(const std::string &address);
    ~HostLink();
    HostLink(const HostLink &) = delete;
    HostLink &operator=(const HostLink &) = delete;

    bool has_received() const {
        return !received_.empty();
    }

    /* The oldest received byte, 0 without one. */
    uint8_t receive();

    void send(uint8_t byte) {
        unsent_.push_back(byte);
    }

    /* Sends what the UART has sent, and takes what has arrived; with `wait` it sleeps until something does.
     * Returns false when the host has closed the connection, or a signal ends the simulation. */
    bool exchange(bool wait);

  private:
    bool flush();

    int socket_ = -1;
    std::deque<uint8_t> received_;
    std::vector<uint8_t> unsent_;
};

#endif
