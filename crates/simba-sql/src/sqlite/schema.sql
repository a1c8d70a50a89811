-- Simba's tables, version 1. They may stand beside other tables of the same file.

create table simba_meta (
    key   text primary key not null,
    value text not null
) without rowid;

-- One row a session. It is deleted by whoever finds that the session is over, and never comes back.
create table simba_session (
    id         text primary key not null,           -- 32 hexadecimal digits
    clock      text not null,                       -- the boot in which the times below were read
    expires_ns integer not null,                    -- boot-time clock of the host
    renewed_ns integer not null,
    lease_ns   integer not null,
    version    integer not null default 0,          -- how often the session's set of leases has changed
    node       text not null,
    pid        integer not null,
    client     text not null,
    host       text not null
) without rowid;

-- One row a name. Rows are never deleted, so that a token is never handed out twice. A lease is free when its
-- session is null or not in simba_session.
create table simba_lease (
    name        text primary key not null,          -- compared byte for byte; "namespace/name" in a namespace
    token       integer not null check (token > 0),
    session     text,
    acquired_ns integer not null
) without rowid;

create index simba_lease_session on simba_lease (session) where session is not null;

-- The last releases, for those who wait. An empty name stands for "more than are worth listing".
create table simba_freed (
    seq  integer primary key not null,
    name text not null
);

-- The version of a session rises with each lease that becomes its own or ceases to be, whoever writes the row.
create trigger simba_lease_insert after insert on simba_lease when new.session is not null begin
    update simba_session set version = version + 1 where id = new.session;
end;

-- `insert or replace` deletes the row that was there without a delete trigger.
create trigger simba_lease_replace before insert on simba_lease
when exists (select 1 from simba_lease where name = new.name and session is not null) begin
    update simba_session set version = version + 1
    where id = (select session from simba_lease where name = new.name);
end;

create trigger simba_lease_update after update of name, session, token on simba_lease
when new.session is not old.session or new.token is not old.token or new.name is not old.name begin
    update simba_session set version = version + 1 where id = old.session;
    update simba_session set version = version + 1 where id = new.session;
    insert into simba_freed (name) select old.name where new.session is null and old.session is not null;
end;

create trigger simba_lease_delete after delete on simba_lease when old.session is not null begin
    update simba_session set version = version + 1 where id = old.session;
    insert into simba_freed (name) values (old.name);
end;

insert into simba_meta (key, value) values ('schema', '1');
