// SPDX-License-Identifier: Apache-2.0
#include "host_link.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

HostLink::HostLink(const std::string &address) {
    size_t colon = address.rfind(':');
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (colon == std::string::npos || getaddrinfo(address.substr(0, colon).c_str(),
                                                  address.substr(colon + 1).c_str(), &hints, &found) != 0) {
        throw std::runtime_error("--link is not HOST:PORT: " + address);
    }
    socket_ = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    bool connected = socket_ >= 0 && connect(socket_, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    if (!connected) {
        throw std::runtime_error("cannot connect to " + address);
    }
    int on = 1; /* frames are small and answered one by one */
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

HostLink::~HostLink() {
    (void)close(socket_);
}

uint8_t HostLink::receive() {
    if (received_.empty()) {
        return 0;
    }
    uint8_t byte = received_.front();
    received_.pop_front();
    return byte;
}

bool HostLink::exchange(bool wait) {
    if (!flush()) {
        return false;
    }
    pollfd ready{socket_, POLLIN, 0};
    int count = poll(&ready, 1, wait ? -1 : 0);
    if (count <= 0) {
        return count == 0;
    }
    std::array<uint8_t, 4096> bytes;
    ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    if (size <= 0) {
        return false;
    }
    received_.insert(received_.end(), bytes.begin(), bytes.begin() + size);
    return true;
}

bool HostLink::flush() {
    size_t at = 0;
    while (at < unsent_.size()) {
        ssize_t size = ::send(socket_, &unsent_[at], unsent_.size() - at, MSG_NOSIGNAL);
        if (size <= 0) {
            return false;
        }
        at += static_cast<size_t>(size);
    }
    unsent_.clear();
    return true;
}
